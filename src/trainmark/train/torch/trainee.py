"""Trainee: everything one rank trains with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainmark.data.batches import Batches, KnownBatches
from trainmark.spec.config import RunConfig
from trainmark.spec.layout import ParallelLayout
from trainmark.train.learning_rate import Schedule
from trainmark.train.torch.protocols import Arithmetic, Communicator, Parallelism
from trainmark.train.torch.tasks import Task

Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Trainee:
    """A member's model on one rank, with its data, task, optimizer and schedule."""

    config: RunConfig
    member: int
    rank: int
    workers: int
    layout: ParallelLayout
    device: torch.device
    counts: NDArray[np.uint8]
    parallelism: Parallelism
    communicator: Communicator
    arithmetic: Arithmetic
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    task: Task
    quality: Any
    train_batches: Batches
    kept_batches: KnownBatches | None  # the training samples, to predict those that are out of bag
    eval_batches: KnownBatches | None  # None where data are synthetic: there is nothing to evaluate
