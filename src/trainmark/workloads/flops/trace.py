"""One training pass of a model on shapes alone: which operators ran in which layer, and what waits for the backward."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.hooks import RemovableHandle

from trainmark.workloads.flops.recorder import Executed, Recorder, storage_of, storages_of, tensors_in

# Batch normalisation in training refuses a single value per channel, so two samples are traced and halved.
SAMPLES = 2


@dataclass(frozen=True)
class Trace:
    """What ran, in order; bytes kept for the backward pass and the output's shape by layer (None: outside of all)."""

    executed: tuple[Executed, ...]
    kept_bytes: dict[str | None, int]
    output_shapes: dict[str, tuple[int, ...]]


def top_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers by which a model is split: its children, or itself where it has none."""
    return dict(model.named_children()) or {type(model).__name__: model}


def trace_training(model: nn.Module, run: Callable[[Tensor], Any], inputs: Tensor) -> Trace:
    """A forward and a backward pass of `run`, which is the model or a part of it."""
    recorder = Recorder(model)
    keeper = _Keeper(recorder, model)
    shapes: dict[str, tuple[int, ...]] = {}
    with _watched(model, recorder, shapes), recorder:
        with saved_tensors_hooks(keeper.keep, _as_kept):
            outputs = [tensor for tensor in tensors_in(run(inputs)) if tensor.requires_grad]
        recorder.phase = "backward"
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])
    return Trace(tuple(recorder.executed), dict(keeper.kept_bytes), shapes)


@contextmanager
def _watched(model: nn.Module, recorder: Recorder, shapes: dict[str, tuple[int, ...]]) -> Iterator[None]:
    """Inside, the recorder knows which layer runs, forward and backward."""
    handles: list[RemovableHandle] = []
    for name, layer in top_layers(model).items():
        handles += _watch(layer, name, recorder, shapes)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _watch(
    layer: nn.Module, name: str, recorder: Recorder, shapes: dict[str, tuple[int, ...]]
) -> tuple[RemovableHandle, RemovableHandle]:
    def enter(*_: Any) -> None:
        recorder.layer = name

    def leave(_: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
        recorder.layer = None
        before = {tensor.grad_fn for tensor in tensors_in(inputs)}
        for tensor in tensors_in(outputs):
            shapes[name] = tuple(tensor.shape[1:])
            # The gradient runs through a layer's last node first. What a layer only passes on is not its own.
            if tensor.grad_fn is not None and tensor.grad_fn not in before:
                tensor.grad_fn.register_prehook(enter)

    return layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)


class _Keeper:
    """Adds up what autograd keeps for the backward pass: every piece of memory once, the model's own state left out."""

    def __init__(self, recorder: Recorder, model: nn.Module) -> None:
        self.kept_bytes: Counter[str | None] = Counter()
        self._recorder = recorder
        self._known = set(storages_of(model))

    def keep(self, tensor: Tensor) -> Tensor:
        """The tensor itself, which is what autograd then holds."""
        storage = storage_of(tensor)
        if storage not in self._known:
            self._known.add(storage)
            self.kept_bytes[self._recorder.layer] += tensor.untyped_storage().nbytes()
        return tensor


def _as_kept(tensor: Tensor) -> Tensor:
    return tensor
