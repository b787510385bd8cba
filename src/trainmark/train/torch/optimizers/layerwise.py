"""The layer-wise adaptive optimizers for large batches: LARS and LAMB."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def layer_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: weights, with decay and adaptation; biases and normalisation (at most 1-D), without."""
    known = list(parameters)
    return [
        {"params": [each for each in known if each.ndim > 1], "weight_decay": weight_decay, "adapts": True},
        {"params": [each for each in known if each.ndim <= 1], "weight_decay": 0.0, "adapts": False},
    ]


def local_tensors(tensors: Iterable[Tensor | None]) -> list[Tensor]:
    """The local part of each tensor that is not None, as plain tensors that share its memory."""
    return [each.to_local() if _is_shard(each) else each for each in tensors if each is not None]


def widened(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in at least fp32: with 16-bit tensors, torch would round a rate to 16 bits."""
    return [each.to(torch.promote_types(each.dtype, torch.float32)) for each in tensors]


def global_norms(parts: list[Tensor], parameters: Sequence[nn.Parameter]) -> Tensor:
    """The global L2 norms, in fp32, of tensors sharded like `parameters`, whose local parts are `parts`."""
    norms = torch.stack(torch._foreach_norm(parts, 2, torch.float32))
    first = parameters[0]
    if not _is_shard(first):
        return norms
    from torch.distributed.tensor import DTensor, Partial, Replicate

    # ‖w‖² = Σ over shards of ‖shard‖², one all-reduce for all; replicated mesh dimensions add nothing.
    placements = [Partial() if each.is_shard() else Replicate() for each in first.placements]
    return DTensor.from_local(norms.square(), first.device_mesh, placements).full_tensor().sqrt()


def is_sharded(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether any of these parameters is sharded."""
    return any(_is_shard(each) for each in parameters)


def _is_shard(tensor: Tensor) -> TypeGuard["DTensor"]:
    """Whether a tensor is a DTensor; the import takes most of a second, and sharding has done it already."""
    loaded = sys.modules.get("torch.distributed.tensor")
    return loaded is not None and isinstance(tensor, loaded.DTensor)


def lars(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """LARS (You et al. 2017) as in MLPerf's ResNet: momentum with layer-wise rates, for large batches."""
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
        """Updates all parameters with gradients."""
        for group in self.param_groups:
            trained = [each for each in group["params"] if each.grad is not None]
            if trained:
                self._step_group(group, trained)

    def _step_group(self, group: dict[str, Any], trained: list[nn.Parameter]) -> None:
        weights = local_tensors(trained)
        gradients = local_tensors(each.grad for each in trained)
        velocities = local_tensors(self.state[each]["momentum_buffer"] for each in trained)
        torch._foreach_mul_(velocities, group["momentum"])
        if group["adapts"]:
            trust = _lars_trust(group, global_norms(weights, trained), global_norms(gradients, trained))
            rates = trust * group["lr"]
            torch._foreach_addcmul_(velocities, widened(gradients), rates.unbind())
            torch._foreach_addcmul_(velocities, widened(weights), (rates * group["weight_decay"]).unbind())
        else:
            torch._foreach_add_(velocities, torch._foreach_mul(widened(gradients), group["lr"]))
        torch._foreach_sub_(weights, velocities)


def _lars_trust(group: dict[str, Any], weights: Tensor, gradients: Tensor) -> Tensor:
    """The trust ratio of each layer, from its norms."""
    ratios = group["trust_coefficient"] * weights / (gradients + group["weight_decay"] * weights + group["epsilon"])
    return torch.where((weights > 0) & (gradients > 0), ratios, 1.0)


def lamb(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """LAMB (You et al. 2020): Adam with layer-wise rates, for large batches."""
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
        # "capturable" makes torch load `step` onto the parameter's device, where it is incremented.
        defaults = {"lr": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "capturable": True}
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = torch.zeros((), device=parameter.device)
                self.state[parameter]["exp_avg"] = torch.zeros_like(parameter)
                self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Updates all parameters with gradients."""
        for group in self.param_groups:
            torch._foreach_add_([self.state[each]["step"] for each in group["params"]], 1)
            trained = [each for each in group["params"] if each.grad is not None]
            if trained:
                self._step_group(group, trained)

    def _step_group(self, group: dict[str, Any], trained: list[nn.Parameter]) -> None:
        weights = local_tensors(trained)
        directions = self._adam_directions(group, trained)
        torch._foreach_add_(directions, weights, alpha=group["weight_decay"])
        rates = group["lr"]
        if group["adapts"]:
            rates = (rates * _lamb_trust(global_norms(weights, trained), global_norms(directions, trained))).unbind()
        torch._foreach_mul_(directions, rates)
        torch._foreach_sub_(weights, directions)

    def _adam_directions(self, group: dict[str, Any], trained: list[nn.Parameter]) -> list[Tensor]:
        """The local part of m̂ / (√v̂ + ε), where m̂ = m / (1 - β1ᵗ) and v̂ = v / (1 - β2ᵗ)."""
        gradients = local_tensors(each.grad for each in trained)
        means = local_tensors(self.state[each]["exp_avg"] for each in trained)
        squares = local_tensors(self.state[each]["exp_avg_sq"] for each in trained)
        torch._foreach_lerp_(means, gradients, 1 - group["beta1"])
        torch._foreach_mul_(squares, group["beta2"])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - group["beta2"])

        # In fp64: in fp32, 1 - 0.999¹ loses three of its seven digits.
        steps = self.state[trained[0]]["step"].double()
        mean_share = (1 - group["beta1"] ** steps).float()
        root_share = (1 - group["beta2"] ** steps).sqrt().float()
        divisors = torch._foreach_sqrt(squares)
        torch._foreach_div_(divisors, root_share)
        torch._foreach_add_(divisors, group["epsilon"])
        torch._foreach_mul_(divisors, mean_share)
        return list(torch._foreach_div(means, divisors))


def _lamb_trust(weights: Tensor, directions: Tensor) -> Tensor:
    """The trust ratio of each layer, from its norms."""
    return torch.where((weights > 0) & (directions > 0), weights / directions, 1.0)
