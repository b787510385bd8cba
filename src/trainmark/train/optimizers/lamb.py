"""LAMB: Adam whose rate follows the norms of each layer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.train.optimizers.layers import layer_groups, own_parts, whole_norms


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """LAMB (You et al. 2020): Adam with a rate for each layer, for large batches."""
    return Lamb(
        layer_groups(parameters, settings.weight_decay),
        rate=settings.learning_rate,
        beta1=settings.momentum,
        beta2=settings.beta2,
        epsilon=1e-6 if settings.epsilon is None else settings.epsilon,
    )


class Lamb(torch.optim.Optimizer):
    """w -= rate·trust·u; u = m̂ / (√v̂ + ε) + decay·w; trust = ‖w‖ / ‖u‖, and 1 where a norm is 0."""

    def __init__(self, groups: list[dict[str, Any]], rate: float, beta1: float, beta2: float, epsilon: float) -> None:
        # "capturable" makes torch load `step` onto the parameter's device, where it is counted.
        defaults = {"lr": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "capturable": True}
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = torch.zeros((), device=parameter.device)
                self.state[parameter]["exp_avg"] = torch.zeros_like(parameter)
                self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """All parameters with gradients take one step."""
        for group in self.param_groups:
            torch._foreach_add_([self.state[each]["step"] for each in group["params"]], 1)
            trained = [each for each in group["params"] if each.grad is not None]
            if trained:
                self._step_group(group, trained)

    def _step_group(self, group: dict[str, Any], trained: list[nn.Parameter]) -> None:
        weights = own_parts(trained)
        directions = self._adam_directions(group, trained)
        torch._foreach_add_(directions, weights, alpha=group["weight_decay"])
        rates = group["lr"]
        if group["adapts"]:
            rates = (rates * _trust(whole_norms(weights, trained), whole_norms(directions, trained))).unbind()
        torch._foreach_mul_(directions, rates)
        torch._foreach_sub_(weights, directions)

    def _adam_directions(self, group: dict[str, Any], trained: list[nn.Parameter]) -> list[Tensor]:
        """This worker's part of m̂ / (√v̂ + ε), where m̂ = m / (1 - β1ᵗ) and v̂ = v / (1 - β2ᵗ)."""
        gradients = own_parts(each.grad for each in trained)
        means = own_parts(self.state[each]["exp_avg"] for each in trained)
        squares = own_parts(self.state[each]["exp_avg_sq"] for each in trained)
        torch._foreach_lerp_(means, gradients, 1 - group["beta1"])
        torch._foreach_mul_(squares, group["beta2"])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - group["beta2"])

        # In float64: in float32 1 - 0.999¹ has lost three of its seven digits.
        steps = self.state[trained[0]]["step"].double()
        mean_share = (1 - group["beta1"] ** steps).float()
        root_share = (1 - group["beta2"] ** steps).sqrt().float()
        divisors = torch._foreach_sqrt(squares)
        torch._foreach_div_(divisors, root_share)
        torch._foreach_add_(divisors, group["epsilon"])
        torch._foreach_mul_(divisors, mean_share)
        return list(torch._foreach_div(means, divisors))


def _trust(weights: Tensor, directions: Tensor) -> Tensor:
    """What the rate of each layer is multiplied by, from its norms."""
    return torch.where((weights > 0) & (directions > 0), weights / directions, 1.0)
