"""Task: what a member learns, as training and evaluation see it."""

from typing import Protocol

import torch
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts


class Task(Protocol):
    """The loss of a batch, and predictions, from a model."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch."""
        ...

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """The same from what the last layer gave, for models whose layers are split over workers."""
        ...

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """One row per sample, of a size that does not depend on the sample."""
        ...

    @staticmethod
    def made_up_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """Targets for random samples, on the generator's device."""
        ...

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """What the model has counted in training since the last call; plain values."""
        ...
