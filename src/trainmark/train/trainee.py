"""Trainee: everything one rank trains with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trainmark.data.batches import ResidentBatches
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.schedule import Progress


@dataclass(frozen=True)
class Trainee:
    """A member's model on one rank, with its data, task, optimizer and schedule."""

    config: RunConfig
    member: int
    rank: int
    workers: int
    device: torch.device
    counts: NDArray[np.uint8]
    model: nn.Module
    shared_model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Callable[[Progress, TrainConfig], float]
    task: Any
    quality: Any
    train_batches: ResidentBatches
    eval_batches: ResidentBatches
