"""LARS: SGD with momentum whose rate follows the norms of each layer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.train.optimizers.layers import layer_groups, own_parts, whole_norms, widened


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """LARS (You et al. 2017) as in MLPerf's ResNet: momentum with a rate for each layer, for large batches."""
    return Lars(
        layer_groups(parameters, settings.weight_decay),
        rate=settings.learning_rate,
        momentum=settings.momentum,
        trust_coefficient=settings.trust_coefficient,
        epsilon=settings.epsilon or 0.0,
    )


class Lars(torch.optim.Optimizer):
    """v = m·v + rate·trust·(g + decay·w); w -= v; trust = η·‖w‖ / (‖g‖ + decay·‖w‖ + ε), and 1 where a norm is 0."""

    momentum_holds_rate = True

    def __init__(
        self, groups: list[dict[str, Any]], rate: float, momentum: float, trust_coefficient: float, epsilon: float
    ) -> None:
        defaults = {"lr": rate, "momentum": momentum, "trust_coefficient": trust_coefficient, "epsilon": epsilon}
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """All parameters with gradients take one step."""
        for group in self.param_groups:
            trained = [each for each in group["params"] if each.grad is not None]
            if trained:
                self._step_group(group, trained)

    def _step_group(self, group: dict[str, Any], trained: list[nn.Parameter]) -> None:
        weights = own_parts(trained)
        gradients = own_parts(each.grad for each in trained)
        velocities = own_parts(self.state[each]["momentum_buffer"] for each in trained)
        torch._foreach_mul_(velocities, group["momentum"])
        if group["adapts"]:
            trust = _trust(group, whole_norms(weights, trained), whole_norms(gradients, trained))
            rates = trust * group["lr"]
            torch._foreach_addcmul_(velocities, widened(gradients), rates.unbind())
            torch._foreach_addcmul_(velocities, widened(weights), (rates * group["weight_decay"]).unbind())
        else:
            torch._foreach_add_(velocities, torch._foreach_mul(widened(gradients), group["lr"]))
        torch._foreach_sub_(weights, velocities)


def _trust(group: dict[str, Any], weights: Tensor, gradients: Tensor) -> Tensor:
    """What the rate of each layer is multiplied by, from its norms."""
    ratios = group["trust_coefficient"] * weights / (gradients + group["weight_decay"] * weights + group["epsilon"])
    return torch.where((weights > 0) & (gradients > 0), ratios, 1.0)
