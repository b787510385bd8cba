"""Batch normalisation whose statistics are those of all replicas' samples, as if they were one batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.train.torch.protocols import Peers


def synchronise(model: nn.Module, peers: Peers) -> nn.Module:
    """The model with every batch normalisation taking its statistics from the samples of all peers."""
    if peers.group is None or peers.size == 1:
        return model
    # A group of its own, so that its collectives and those of the gradients, which overlap, never meet.
    ranks = dist.get_process_group_ranks(peers.group)
    group = dist.new_group(ranks, use_local_synchronization=True)
    if peers.device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model, group)  # type: ignore[no-untyped-call]
        return converted
    return _replaced(model, group)


def _replaced(module: nn.Module, group: dist.ProcessGroup) -> nn.Module:
    """The module, or what takes its place if it is a batch normalisation; the same in its children."""
    if isinstance(module, _BatchNorm):
        return SynchronisedBatchNorm(module, group)
    for name, child in module.named_children():
        setattr(module, name, _replaced(child, group))
    return module


class SynchronisedBatchNorm(_BatchNorm):
    """torch's SyncBatchNorm for the CPU, which that one refuses; parameters and buffers keep their names."""

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
        """The normalised samples; running statistics are those of all replicas' samples."""
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
        # Without a momentum the statistics are the mean over all batches so far.
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


class _Normalise(torch.autograd.Function):
    """Batch normalisation over the samples of a group, with the gradients of the whole."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, group: dist.ProcessGroup
    ) -> tuple[Tensor, Tensor, Tensor, float]:
        """The normalised samples, and mean, variance and number of the values of a channel."""
        values = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        over = [dim for dim in range(x.dim()) if dim != 1]
        local_variance, local_mean = torch.var_mean(values, over, correction=0)
        count = values.numel() / values.shape[1]
        # Sums of shares, not of squares: n·mean and n·(variance + mean²) lose digits where the mean is large, so the
        # means are joined first and each worker's spread is then taken about the joint mean.
        total = _summed(torch.cat([local_mean * count, local_mean.new_tensor([count])]), group)
        samples, mean = total[-1], total[:-1] / total[-1]
        variance = _summed(count * (local_variance + (local_mean - mean) ** 2), group) / samples
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(values, weight, mean, inverse)
        ctx.samples, ctx.over, ctx.group, ctx.has_bias = samples, over, group, bias is not None
        out = (values - _spread(mean, x)) * _spread(inverse if weight is None else inverse * weight, x)
        if bias is not None:
            out = out + _spread(bias, x)
        ctx.mark_non_differentiable(mean, variance)
        return out.to(x.dtype), mean, variance, float(samples)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """dL/dx = w/σ·(g − mean(g) − x̂·mean(g·x̂)), means over all replicas; weight and bias: this worker's sums."""
        values, weight, mean, inverse = ctx.saved_tensors
        incoming = grad.to(values.dtype)
        normalised = (values - _spread(mean, values)) * _spread(inverse, values)
        of_bias = incoming.sum(ctx.over)
        of_weight = (incoming * normalised).sum(ctx.over)
        means = _summed(torch.stack([of_bias, of_weight]), ctx.group) / ctx.samples
        of_values = incoming - _spread(means[0], values) - normalised * _spread(means[1], values)
        of_values = of_values * _spread(inverse if weight is None else inverse * weight, values)
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


def _spread(per_channel: Tensor, like: Tensor) -> Tensor:
    """A value per channel, shaped to act on all values of its channel."""
    return per_channel.view(1, -1, *[1] * (like.dim() - 2))
