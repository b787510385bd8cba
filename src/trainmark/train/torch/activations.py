"""Activations between forward and backward pass: kept, recomputed, or offloaded to host memory or disk."""

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

MIN_BYTES = 2**16  # moving smaller tensors costs more than it saves


def recompute_layers(model: nn.Module) -> None:
    """Every layer with sublayers keeps only its input and is recomputed in the backward pass."""
    for layer in model.children():
        if any(True for _ in layer.children()):
            layer.forward = partial(
                checkpoint,
                layer.forward,
                use_reentrant=False,
                context_fn=partial(_contexts, layer),
            )


def _contexts(layer: nn.Module) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), _without_statistics(layer)


@contextmanager
def _without_statistics(layer: nn.Module) -> Iterator[None]:
    """Keeps batch normalisation from updating its running statistics: a batch must count once, not twice."""
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
    """A context for the forward pass that offloads saved activations as configured."""
    if settings.torch.offload == "host":
        return save_on_cpu(pin_memory=True)
    if settings.torch.offload == "disk":
        return DiskOffload(scratch)
    return nullcontext()


class _OnDisk(NamedTuple):
    """A tensor's location in the file, and what is needed to restore it."""

    offset: int
    num_bytes: int
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    device: torch.device


class DiskOffload(saved_tensors_hooks):
    """Writes saved activations to an unnamed file in `scratch` and reads them back; one forward pass at a time."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(self._pack, self._unpack)
        self._scratch = scratch
        self._file: BinaryIO | None = None
        self._end = 0

    def __enter__(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._scratch)
        self._end = 0
        super().__enter__()

    def _pack(self, tensor: Tensor) -> _OnDisk | Tensor:
        if isinstance(tensor, nn.Parameter) or tensor.nbytes < MIN_BYTES or (tensor.is_leaf and tensor.requires_grad):
            return tensor
        assert self._file is not None
        tensor = tensor.detach()
        dense = tensor if _is_dense(tensor) else tensor.contiguous()
        flat = torch.as_strided(dense, (dense.numel(),), (1,)).cpu()
        location = _OnDisk(self._end, dense.nbytes, dense.dtype, dense.shape, dense.stride(), dense.device)
        self._file.seek(location.offset)
        self._file.write(flat.view(torch.uint8).numpy().data)
        self._end += location.num_bytes
        return location

    def _unpack(self, location: _OnDisk | Tensor) -> Tensor:
        if isinstance(location, Tensor):
            return location
        assert self._file is not None
        data = bytearray(location.num_bytes)
        self._file.seek(location.offset)
        self._file.readinto(data)  # type: ignore[attr-defined]
        flat = torch.frombuffer(data, dtype=location.dtype)
        return flat.as_strided(location.shape, location.stride).to(location.device)


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill contiguous memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
