"""Where activations wait for the backward pass: in memory, computed again, in the host's memory or on disk."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from trainmark.spec.config import TrainConfig

LEAST_BYTES = 2**16  # smaller tensors cost more to move than they free


def recompute_layers(model: nn.Module) -> None:
    """Every layer that has layers inside keeps only its input, and runs again when its gradient is wanted."""
    for layer in model.children():
        if any(True for _ in layer.children()):
            layer.forward = partial(
                checkpoint,
                layer.forward,
                use_reentrant=False,
                context_fn=partial(_twice, layer),
            )


def _twice(layer: nn.Module) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), _without_statistics(layer)


@contextmanager
def _without_statistics(layer: nn.Module) -> Iterator[None]:
    """Inside, batch normalisation leaves its running statistics alone: a batch must count once, not twice."""
    found = [m for m in layer.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    momenta = [module.momentum for module in found]
    for module in found:
        module.momentum = 0.0
    try:
        yield
    finally:
        for module, momentum in zip(found, momenta, strict=True):
            module.momentum = momentum
            if module.num_batches_tracked is not None:
                module.num_batches_tracked -= 1


def offloading(settings: TrainConfig, scratch: Path) -> AbstractContextManager[Any]:
    """A context for the forward pass: what it saves for the backward pass is kept where the recipe says."""
    if settings.torch.offload == "host":
        return save_on_cpu(pin_memory=True)
    if settings.torch.offload == "disk":
        return DiskOffload(scratch)
    return nullcontext()


class _OnDisk(NamedTuple):
    """A tensor's place in the file, and all that is needed to make it again."""

    offset: int
    num_bytes: int
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    device: torch.device


class DiskOffload(saved_tensors_hooks):
    """Writes saved activations to a nameless file in `scratch` and reads them back; one forward pass at a time."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(self._put, self._get)
        self._scratch = scratch
        self._file: BinaryIO | None = None
        self._end = 0

    def __enter__(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._scratch)
        self._end = 0
        super().__enter__()

    def _put(self, tensor: Tensor) -> _OnDisk | Tensor:
        if isinstance(tensor, nn.Parameter) or tensor.nbytes < LEAST_BYTES or (tensor.is_leaf and tensor.requires_grad):
            return tensor
        assert self._file is not None
        tensor = tensor.detach()
        dense = tensor if _is_dense(tensor) else tensor.contiguous()
        flat = torch.as_strided(dense, (dense.numel(),), (1,)).cpu()
        place = _OnDisk(self._end, dense.nbytes, dense.dtype, dense.shape, dense.stride(), dense.device)
        self._file.seek(place.offset)
        self._file.write(flat.view(torch.uint8).numpy().data)
        self._end += place.num_bytes
        return place

    def _get(self, place: _OnDisk | Tensor) -> Tensor:
        if isinstance(place, Tensor):
            return place
        assert self._file is not None
        data = bytearray(place.num_bytes)
        self._file.seek(place.offset)
        self._file.readinto(data)  # type: ignore[attr-defined]
        flat = torch.frombuffer(data, dtype=place.dtype)
        return flat.as_strided(place.shape, place.stride).to(place.device)


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill a run of memory without gaps or overlaps, in whatever order."""
    wanted = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != wanted:
                return False
            wanted *= size
    return True
