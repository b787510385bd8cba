"""One training pass of a model on shapes alone: which operators run, with their FLOPs and bytes, layer by layer."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from trainmark.workloads.flops import ai500, exact

Phase = Literal["forward", "backward"]


class Executed(NamedTuple):
    """One operator that ran: where, and what it cost."""

    layer: str | None  # None: outside of all layers
    phase: Phase
    exact: exact.Counts
    ai500: ai500.Counts
    activation_bytes: int
    weight_bytes: int


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records each operator that runs inside; the caller sets the current layer and phase."""

    def __init__(self, model: nn.Module | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layer: str | None = None
        self.phase: Phase = "forward"
        self.executed: list[Executed] = []
        self._weights = frozenset(storages_of(model)) if model else frozenset()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        moved = moved_bytes(func, args, out, self._weights) if self.phase == "forward" else (0, 0)
        counts = exact.count(func, args, out), ai500.count(func, args, out)
        self.executed.append(Executed(self.layer, self.phase, *counts, *moved))
        return out


def moved_bytes(operator: Any, args: tuple[Any, ...], out: Any, weights: frozenset[int]) -> tuple[int, int]:
    """Bytes of activations and of weights that an operator reads and writes, each input once; views are free."""
    inputs = {storage_of(tensor): tensor for tensor in tensors_in(args)}
    outputs = [tensor for tensor in tensors_in(out) if operator._schema.is_mutable or storage_of(tensor) not in inputs]
    if not inputs or not outputs:
        return 0, 0
    moved = [0, 0]
    for tensor in (*inputs.values(), *outputs):
        # An expanded tensor has more elements than memory.
        moved[storage_of(tensor) in weights] += min(tensor.nbytes, tensor.untyped_storage().nbytes())
    return moved[0], moved[1]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in a value, including those in tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def storage_of(tensor: Tensor) -> int:
    """The identity of a tensor's storage; not its address, which meta tensors lack."""
    storage: int = tensor.untyped_storage()._cdata
    return storage


def storages_of(model: nn.Module) -> Iterator[int]:
    """The storages of a model's parameters and running statistics."""
    return (storage_of(tensor) for tensor in (*model.parameters(), *model.buffers()))


# Batch normalisation in training needs more than one value per channel, so two samples are traced and halved.
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
    """Tells the recorder which layer runs, forward and backward."""
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
            # The gradient passes a layer's last node first. Pass-through outputs do not belong to the layer.
            if tensor.grad_fn is not None and tensor.grad_fn not in before:
                tensor.grad_fn.register_prehook(enter)

    return layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)


class _Keeper:
    """Sums what autograd saves for the backward pass: every storage once, without the model's state."""

    def __init__(self, recorder: Recorder, model: nn.Module) -> None:
        self.kept_bytes: Counter[str | None] = Counter()
        self._recorder = recorder
        self._known = set(storages_of(model))

    def keep(self, tensor: Tensor) -> Tensor:
        """Counts the tensor and returns it for autograd to save."""
        storage = storage_of(tensor)
        if storage not in self._known:
            self._known.add(storage)
            self.kept_bytes[self._recorder.layer] += tensor.untyped_storage().nbytes()
        return tensor


def _as_kept(tensor: Tensor) -> Tensor:
    return tensor
