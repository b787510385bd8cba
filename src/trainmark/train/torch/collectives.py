"""Collectives on lists of tensors: averages, broadcasts, and whether a step overflowed."""

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainmark.train.torch.protocols import WorkerGroup


@torch.no_grad()
def average(tensors: list[Tensor], workers: WorkerGroup) -> None:
    """Averages each tensor over the workers in place, with one all-reduce for all."""
    if workers.size == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors]).div_(workers.size)
    dist.all_reduce(flat, group=workers.group)
    _write_back(flat, tensors)


def average_buffers(model: nn.Module, workers: WorkerGroup) -> None:
    """Averages batch normalisation's running statistics, so that all workers evaluate the same model."""
    average([buffer for buffer in model.buffers() if buffer.is_floating_point()], workers)


@torch.no_grad()
def broadcast_flat(source: int, tensors: list[Tensor], workers: WorkerGroup) -> None:
    """Broadcasts tensors in place from worker `source`, with one message per dtype."""
    by_dtype: dict[torch.dtype, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_dtype[tensor.dtype].append(tensor)
    for group in by_dtype.values():
        flat = torch.cat([tensor.flatten() for tensor in group])
        dist.broadcast(flat, group=workers.group, group_src=source)
        _write_back(flat, group)


@torch.no_grad()
def sync_overflow(gradients: list[Tensor], workers: WorkerGroup) -> None:
    """Makes a gradient that overflowed on one worker non-finite on all, so that all of them skip the step."""
    # 0 × a finite number is 0; 0 × inf and 0 × nan are nan, and nan stays nan in every sum.
    flag = torch.stack([gradient.mul(0).sum(dtype=torch.float32) for gradient in gradients]).sum()
    dist.all_reduce(flag, group=workers.group)
    gradients[0].add_(flag)


def _write_back(flat: Tensor, tensors: list[Tensor]) -> None:
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, values in zip(tensors, torch.split(flat, sizes), strict=True):
        tensor.copy_(values.view(tensor.shape))


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """Concatenates all values in fp32; a copy."""
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])


def unflatten(vector: Tensor, tensors: Iterable[Tensor]) -> None:
    """Copies the values of the vector into the tensors."""
    start = 0
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(vector[start : start + tensor.numel()].view(tensor.shape))
            start += tensor.numel()


def broadcast_from_rank_0(tensors: Iterable[Tensor], workers: WorkerGroup) -> None:
    """Broadcasts tensors in place from the group's rank 0, one message per tensor."""
    if workers.size == 1:
        return
    with torch.no_grad():
        for tensor in tensors:
            whole = tensor.detach().contiguous()  # channels-last weights are not contiguous
            dist.broadcast(whole, group=workers.group, group_src=0)
            tensor.copy_(whole)
