"""Live memory of a training pass: bytes of all tensors at each operator, counted without computing anything."""

import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from trainmark.spec.config import Setting
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.trace import tensors_in

Technique = Literal["none", "recompute", "offload"]
TECHNIQUES: tuple[Technique, ...] = get_args(Technique)
MANY, MORE = 64, 128  # samples: the peak of large batches grows linearly, weights and their gradients are a constant
OFFLOADED_BYTES = 2**16  # smaller tensors stay


class Liveness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that are alive, and keeps the largest sum."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes = 0
        self._live_bytes = 0
        self._bytes: dict[int, int] = {}

    def add(self, tensor: Tensor) -> None:
        """Counts the tensor's storage until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._bytes:
            self._bytes[key] = storage.nbytes()
            self._live_bytes += self._bytes[key]
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)
            weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self._live_bytes -= self._bytes.pop(key)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self.add(tensor)
        return out


def live_bytes(
    name: str, settings: Mapping[str, Setting], shape: tuple[int, ...], technique: Technique, *, is_half: bool = False
) -> int:
    """Bytes by which the peak of a pass grows with one more sample: activations, and their gradients in flight."""
    peaks = [_peak(name, settings, (samples, *shape), technique, is_half=is_half) for samples in (MANY, MORE)]
    return (peaks[1] - peaks[0]) // (MORE - MANY)


def _peak(
    name: str, settings: Mapping[str, Setting], shape: tuple[int, ...], technique: Technique, *, is_half: bool
) -> int:
    """The peak of a forward and backward pass; weights and their gradients are a constant in it."""
    with torch.device("meta"):  # initialisation reads values, which fake tensors do not have
        model: nn.Module = find_card(name).build("torch", settings).train()
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = model.to_empty(device="cpu")  # autocast heeds the device
        if technique == "recompute":
            _recompute(model)
        live, inputs = Liveness(), torch.empty(shape)
        with live:
            live.add(inputs)
            with torch.autocast("cpu", torch.bfloat16, enabled=is_half), _saving(technique):
                outputs = getattr(model, "dense", model)(inputs)
                ends = [tensor for tensor in tensors_in(outputs) if tensor.requires_grad]
                del outputs
            torch.autograd.backward(ends, [torch.ones_like(tensor) for tensor in ends])
    return live.peak_bytes


def _recompute(model: nn.Module) -> None:
    """Every layer with sublayers keeps its input alone, as in train/torch/activations.py."""
    for layer in model.children():
        if any(True for _ in layer.children()):
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


class _Elsewhere(NamedTuple):
    """What is left of a tensor that was offloaded."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


def _saving(technique: Technique) -> AbstractContextManager[Any]:
    return saved_tensors_hooks(_offloaded, _fetched) if technique == "offload" else nullcontext()


def _offloaded(tensor: Tensor) -> Tensor | _Elsewhere:
    if isinstance(tensor, nn.Parameter) or tensor.nbytes < OFFLOADED_BYTES:
        return tensor
    return _Elsewhere(tensor.shape, tensor.stride(), tensor.dtype)


def _fetched(saved: Tensor | _Elsewhere) -> Tensor:
    if isinstance(saved, Tensor):
        return saved
    return torch.empty_strided(saved.shape, saved.stride, dtype=saved.dtype)
