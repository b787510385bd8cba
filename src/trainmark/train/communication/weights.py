"""Weights as one vector, and the same on all workers."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from trainmark.train.peers import Peers


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
