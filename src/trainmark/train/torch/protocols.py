"""What a precision, a communication mode and a parallel mode do in the torch engine, and what they are given."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from trainmark.spec.config import TrainConfig
from trainmark.spec.events import EpochFacts
from trainmark.spec.layout import ParallelLayout
from trainmark.train.torch.tasks import Task


class Scaler(Protocol):
    """Keeps small gradients representable: torch.amp.GradScaler, or anything that acts like it."""

    def scale(self, outputs: Tensor) -> Tensor:
        """The loss, made larger."""
        ...

    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        """Makes the gradients small again and steps, unless they overflowed."""
        ...

    def update(self) -> None:
        """Chooses the next scale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        ...


def _unchanged(model: nn.Module) -> nn.Module:
    return model


@dataclass(frozen=True)
class Arithmetic:
    """`note` says what runs on this device; it stands in the Result."""

    note: str
    convert: Callable[[nn.Module], nn.Module] = _unchanged
    forward: Callable[[], AbstractContextManager[Any]] = nullcontext
    scaler: Scaler | None = None
    loss_tolerance: float = 1e-5  # how far a step's loss may be from fp32's; fp32 itself may add up in another order


class Communicator(Protocol):
    """Joins what the copies of a model learn."""

    def share(self, model: nn.Module) -> nn.Module:
        """The model to call in the forward pass; its backward joins gradients, if this mode joins gradients."""
        ...

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """The weights take one step; `step` is this worker's own update by `optimizer`."""
        ...

    def settle(self) -> None:
        """All workers hold the same weights: called before evaluations and checkpoints, by all of them."""
        ...

    def facts(self) -> EpochFacts:
        """What was measured since the last call; `waited_s` (time that communication kept this worker waiting).

        A mode that sends past the process group's sockets says so: `sent_bytes` None and a `sent_reason`.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of this worker: error feedback and the like; tensors and plain values."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        ...


@dataclass(frozen=True)
class Peers:
    """A process group, this worker's place in it, and the node of each of its workers. Alone, there is no group."""

    rank: int
    nodes: tuple[str, ...]
    group: ProcessGroup | None
    device: torch.device

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.nodes)


@dataclass(frozen=True)
class Parts:
    """What a parallel mode works with. `workers` are all of the member's, `replicas` those with the same stage."""

    settings: TrainConfig
    layout: ParallelLayout
    workers: Peers
    replicas: Peers
    task: Task
    arithmetic: Arithmetic
    communicator: Communicator
    sample_shape: tuple[int, ...]
    build_model: Callable[[], nn.Module]


class Parallelism(Protocol):
    """A model, trained by the workers of a member together."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """What this worker's optimizer updates."""
        ...

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of this worker's replica, detached; afterwards the gradients are there, joined."""
        ...

    def whole_model(self) -> nn.Module:
        """The model with all its weights, for predictions, on every worker; all workers call it together."""
        ...

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of this worker that a checkpoint keeps: tensors and plain values; all call it together."""
        ...

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Goes on from what `state` gave on this worker."""
        ...

    def facts(self) -> EpochFacts:
        """What was measured since the last call: `waited_s` for other workers, and the mode's own figures."""
        ...
