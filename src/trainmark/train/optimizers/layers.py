"""Layers as lars and lamb see them: which parameters they adapt, and norms of whole tensors, sharded or not."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def layer_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: weights, decayed and adapted; biases and normalisation (of at most one dimension), neither."""
    known = list(parameters)
    return [
        {"params": [each for each in known if each.ndim > 1], "weight_decay": weight_decay, "adapts": True},
        {"params": [each for each in known if each.ndim <= 1], "weight_decay": 0.0, "adapts": False},
    ]


def own_parts(tensors: Iterable[Tensor | None]) -> list[Tensor]:
    """What this worker holds of each tensor that exists, as plain tensors that share its memory."""
    return [each.to_local() if _is_shard(each) else each for each in tensors if each is not None]


def widened(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in at least float32: beside 16-bit tensors torch would round a rate to 16 bits."""
    return [each.to(torch.promote_types(each.dtype, torch.float32)) for each in tensors]


def whole_norms(parts: list[Tensor], parameters: Sequence[nn.Parameter]) -> Tensor:
    """The L2 norms, in float32, of tensors sharded like `parameters`, of which this worker holds `parts`."""
    norms = torch.stack(torch._foreach_norm(parts, 2, torch.float32))
    first = parameters[0]
    if not _is_shard(first):
        return norms
    from torch.distributed.tensor import DTensor, Partial, Replicate

    # ‖w‖² = Σ over shards of ‖shard‖², one all-reduce for all; a mesh dimension that holds copies adds nothing.
    placements = [Partial() if each.is_shard() else Replicate() for each in first.placements]
    return DTensor.from_local(norms.square(), first.device_mesh, placements).full_tensor().sqrt()


def is_sharded(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether the workers hold shards of these parameters."""
    return any(_is_shard(each) for each in parameters)


def _is_shard(tensor: Tensor) -> TypeGuard["DTensor"]:
    """Whether a tensor is a DTensor; loading that module takes most of a second, and who shards has loaded it."""
    loaded = sys.modules.get("torch.distributed.tensor")
    return loaded is not None and isinstance(tensor, loaded.DTensor)
