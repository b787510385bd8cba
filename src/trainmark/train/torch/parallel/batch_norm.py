"""Synchronised batch normalisation: statistics over the samples of all replicas, as if they were one batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.train.torch.protocols import WorkerGroup


def synchronise(model: nn.Module, workers: WorkerGroup) -> nn.Module:
    """Returns the model with every batch normalisation synchronised over the workers."""
    if workers.group is None or workers.size == 1:
        return model
    # A separate group, because its collectives overlap with those of the gradients.
    ranks = dist.get_process_group_ranks(workers.group)
    group = dist.new_group(ranks, use_local_synchronization=True)
    if workers.device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model, group)  # type: ignore[no-untyped-call]
        return converted
    return _replaced(model, group)


def _replaced(module: nn.Module, group: dist.ProcessGroup) -> nn.Module:
    """Replaces the module, if it is a batch normalisation, and its children recursively."""
    if isinstance(module, _BatchNorm):
        return SynchronisedBatchNorm(module, group)
    for name, child in module.named_children():
        setattr(module, name, _replaced(child, group))
    return module


class SynchronisedBatchNorm(_BatchNorm):
    """SyncBatchNorm for the CPU, which torch's does not support; parameters and buffers keep their names."""

    def __init__(self, local: _BatchNorm, group: dist.ProcessGroup) -> None:
        super().__init__(local.num_features, local.eps, local.momentum, local.affine, local.track_running_stats)
        self._parameters.update(local._parameters)
        self._buffers.update(local._buffers)
        self.group = group
        self.train(local.training)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch normalisation needs samples × channels, got {input.dim()} dimension")

    def forward(self, x: Tensor) -> Tensor:
        """The normalised samples; running statistics cover the samples of all replicas."""
        if not self.training:
            return super().forward(x)
        self._check_input_dim(x)
        out, mean, variance, samples = _Normalise.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, self.eps, self.group
        )
        if self.track_running_stats and self.running_mean is not None:
            self._update(mean, variance * samples / (samples - 1))
        normalised: Tensor = out
        return normalised

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        # Without momentum, the statistics are the mean over all batches so far.
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


class _Normalise(torch.autograd.Function):
    """Batch normalisation over the samples of a group, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, group: dist.ProcessGroup
    ) -> tuple[Tensor, Tensor, Tensor, float]:
        """The normalised samples, and per channel the mean, the variance and the number of values."""
        values = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        over = [dim for dim in range(x.dim()) if dim != 1]
        local_variance, local_mean = torch.var_mean(values, over, correction=0)
        count = values.numel() / values.shape[1]
        # Two passes: summing n·mean and n·(variance + mean²) loses digits where the mean is large, so the means are
        # reduced first and each worker's variance is then taken about the global mean.
        total = _summed(torch.cat([local_mean * count, local_mean.new_tensor([count])]), group)
        samples, mean = total[-1], total[:-1] / total[-1]
        variance = _summed(count * (local_variance + (local_mean - mean) ** 2), group) / samples
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(values, weight, mean, inverse)
        ctx.samples, ctx.over, ctx.group, ctx.has_bias = samples, over, group, bias is not None
        out = (values - _broadcast(mean, x)) * _broadcast(inverse if weight is None else inverse * weight, x)
        if bias is not None:
            out = out + _broadcast(bias, x)
        ctx.mark_non_differentiable(mean, variance)
        return out.to(x.dtype), mean, variance, float(samples)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """dL/dx = w/σ·(g − mean(g) − x̂·mean(g·x̂)), means over all replicas; weight and bias: this worker's sums."""
        values, weight, mean, inverse = ctx.saved_tensors
        incoming = grad.to(values.dtype)
        normalised = (values - _broadcast(mean, values)) * _broadcast(inverse, values)
        of_bias = incoming.sum(ctx.over)
        of_weight = (incoming * normalised).sum(ctx.over)
        means = _summed(torch.stack([of_bias, of_weight]), ctx.group) / ctx.samples
        of_values = incoming - _broadcast(means[0], values) - normalised * _broadcast(means[1], values)
        of_values = of_values * _broadcast(inverse if weight is None else inverse * weight, values)
        return (
            of_values.to(grad.dtype),
            None if weight is None else of_weight,
            of_bias if ctx.has_bias else None,
            None,
            None,
        )


def _summed(tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
    dist.all_reduce(tensor, group=group)
    return tensor


def _broadcast(per_channel: Tensor, like: Tensor) -> Tensor:
    """Per-channel values, shaped to broadcast over `like`."""
    return per_channel.view(1, -1, *[1] * (like.dim() - 2))
