"""What workers make equal among themselves: gradients, statistics, weights, and whether a step overflowed."""

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainmark.train.torch.protocols import Peers


@torch.no_grad()
def average(tensors: list[Tensor], peers: Peers) -> None:
    """Each tensor becomes its mean over the peers, by one all-reduce of all of them."""
    if peers.size == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors]).div_(peers.size)
    dist.all_reduce(flat, group=peers.group)
    _write_back(flat, tensors)


def average_statistics(model: nn.Module, peers: Peers) -> None:
    """Batch normalisation's running statistics become the mean over the peers, so that all evaluate the same model."""
    average([buffer for buffer in model.buffers() if buffer.is_floating_point()], peers)


@torch.no_grad()
def copy_from(source: int, tensors: list[Tensor], peers: Peers) -> None:
    """Each tensor becomes the peer `source`'s, by one broadcast for each number format."""
    by_format: dict[torch.dtype, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_format[tensor.dtype].append(tensor)
    for alike in by_format.values():
        flat = torch.cat([tensor.flatten() for tensor in alike])
        dist.broadcast(flat, group=peers.group, group_src=source)
        _write_back(flat, alike)


@torch.no_grad()
def share_overflow(gradients: list[Tensor], peers: Peers) -> None:
    """A gradient that is not finite on one peer is so on all: then all of them leave out the step."""
    # 0 × a finite number is 0; 0 × inf and 0 × nan are nan, and nan stays nan in every sum.
    trace = torch.stack([gradient.mul(0).sum(dtype=torch.float32) for gradient in gradients]).sum()
    dist.all_reduce(trace, group=peers.group)
    gradients[0].add_(trace)


def _write_back(flat: Tensor, tensors: list[Tensor]) -> None:
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, values in zip(tensors, torch.split(flat, sizes), strict=True):
        tensor.copy_(values.view(tensor.shape))


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """All values, one tensor after another, in fp32; a copy."""
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])


def unflatten(vector: Tensor, tensors: Iterable[Tensor]) -> None:
    """The tensors have the values of the vector."""
    start = 0
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(vector[start : start + tensor.numel()].view(tensor.shape))
            start += tensor.numel()


def broadcast_from_first(tensors: Iterable[Tensor], peers: Peers) -> None:
    """The tensors are those of the first peer."""
    if peers.size == 1:
        return
    with torch.no_grad():
        for tensor in tensors:
            whole = tensor.detach().contiguous()  # channels-last weights are not
            dist.broadcast(whole, group=peers.group, group_src=0)
            tensor.copy_(whole)
