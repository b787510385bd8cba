"""What runs: every operator that a model executes, with its FLOPs by each convention and the bytes it moves."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

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
    """Keeps a record of each operator that runs inside. Whoever runs the model says which layer and phase it is in."""

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
    """Bytes of activations and of weights that an operator reads and writes, each input once; views move nothing."""
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
    """All tensors of a value, inside tuples, lists and dictionaries too."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def storage_of(tensor: Tensor) -> int:
    """The memory of a tensor; not its address, as shapes without values have none."""
    storage: int = tensor.untyped_storage()._cdata
    return storage


def storages_of(model: nn.Module) -> Iterator[int]:
    """The memory of a model's own state: parameters and running statistics."""
    return (storage_of(tensor) for tensor in (*model.parameters(), *model.buffers()))
