"""Parallelism: how a parallel mode trains a model, and the parts that it is given to do so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.spec.layout import ParallelLayout
from trainmark.train.arithmetic import Arithmetic
from trainmark.train.communicator import Communicator
from trainmark.train.peers import Peers
from trainmark.workloads.task import Task


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

    def facts(self) -> dict[str, Any]:
        """What was measured since the last call: `waited_s` for other workers, and the mode's own figures."""
        ...
