"""The protocols of precisions, communication modes and parallel modes in the torch engine."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from trainmark.spec.config import TrainConfig
from trainmark.spec.events import EpochFacts
from trainmark.spec.layout import ParallelLayout
from trainmark.train.torch.padding import PaddingMask
from trainmark.train.torch.tasks import Task


class Pass(NamedTuple):
    """One forward and backward pass: its samples, and the weight of their mean loss in that of the step."""

    inputs: Tensor
    targets: Tensor
    weight: float = 1.0
    divisor: int = 1  # of the loss, in place of a weight, where all passes are alike
    sizes: Tensor | None = None  # height and width of each image, of which the rest is padding; None: no padding


class StepPasses:
    """The passes of a step: the first is on the device, each other one only once it is asked for."""

    def __init__(self, first: Pass, others: Iterator[Pass], num_others: int) -> None:
        self.first: Pass | None = first
        self.waited_ns = 0  # for the others
        self._others, self._num_others = others, num_others

    def __len__(self) -> int:
        return 1 + self._num_others

    def __iter__(self) -> Iterator[Pass]:
        assert self.first is not None
        yield self.first
        if self._num_others:
            self.first = None  # one that was trained need not wait for the others
        for _ in range(self._num_others):
            start = time.perf_counter_ns()
            samples = next(self._others)
            self.waited_ns += time.perf_counter_ns() - start
            yield samples
            del samples


class Scaler(Protocol):
    """Keeps small gradients representable: torch.amp.GradScaler, or anything that acts like it."""

    def scale(self, outputs: Tensor) -> Tensor:
        """Returns the scaled loss."""
        ...

    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        """Unscales the gradients and steps, unless they overflowed."""
        ...

    def update(self) -> None:
        """Updates the scale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        ...


def _unchanged(model: nn.Module) -> nn.Module:
    return model


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of training; `note` describes it in the Result."""

    note: str
    convert: Callable[[nn.Module], nn.Module] = _unchanged
    forward: Callable[[], AbstractContextManager[Any]] = nullcontext
    scaler: Scaler | None = None
    loss_tolerance: float = 1e-5  # of a step's loss relative to fp32; summation order alone may differ in fp32


class Communicator(Protocol):
    """Keeps the replicas of a model in sync."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Returns the model to call in the forward pass; its backward pass reduces gradients if this mode does so."""
        ...

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """Updates the weights; `step` is the local update by `optimizer`."""
        ...

    def sync_weights(self) -> None:
        """Makes the weights the same on all workers, before evaluations and checkpoints; collective."""
        ...

    def facts(self) -> EpochFacts:
        """Measurements since the last call: `waited_s` is the time that this worker waited for communication.

        A mode that bypasses the process group's sockets sets `sent_bytes` to None and a `sent_reason`.
        """
        ...

    def state(self) -> dict[str, Any]:
        """The state of this worker for a checkpoint, such as error feedback: tensors and plain values."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        ...


@dataclass(frozen=True)
class WorkerGroup:
    """A process group (None for one worker), this worker's rank in it, and the node of each of its workers."""

    rank: int
    nodes: tuple[str, ...]
    group: ProcessGroup | None
    device: torch.device

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.nodes)


@dataclass(frozen=True)
class Parts:
    """What a parallel mode is built from. `workers` are all of the member's, `replicas` those with the same stage."""

    settings: TrainConfig
    layout: ParallelLayout
    workers: WorkerGroup
    replicas: WorkerGroup
    task: Task
    arithmetic: Arithmetic
    communicator: Communicator
    sample_shape: tuple[int, ...]
    build_model: Callable[[], nn.Module]
    padding: PaddingMask | None = None  # None: padding is computed like everything else


class Parallelism(Protocol):
    """A model that the workers of a member train together."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that this worker's optimizer updates."""
        ...

    def forward_backward(self, passes: Sequence[Pass] | StepPasses) -> Tensor:
        """Accumulates reduced gradients of all passes; returns the mean loss of this worker's replica, detached."""
        ...

    def whole_model(self) -> nn.Module:
        """Returns the model with all its weights, for predictions, on every worker; collective."""
        ...

    def compiled_model(self) -> nn.Module | None:
        """Returns the model that the training step calls, without communication; None if this worker has a part."""
        ...

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of this worker for a checkpoint: tensors and plain values; collective."""
        ...

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Restores what `state` returned on this worker."""
        ...

    def facts(self) -> EpochFacts:
        """Measurements since the last call: `waited_s` for other workers, and the mode's own."""
        ...
