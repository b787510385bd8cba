"""One class per sample: cross-entropy loss, class probabilities as predictions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts


class Classification:
    """One class per sample: cross-entropy loss, class probabilities as predictions."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of a batch."""
        return Classification.loss_of_outputs(model(inputs), targets)

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """The same from what the last layer gave."""
        return F.cross_entropy(outputs.float(), targets)

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """The probability of each class."""
        return F.softmax(model(inputs).float(), dim=1)

    @staticmethod
    def made_up_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """Any classes."""
        return torch.randint(num_classes, (batch_size,), device=random.device, generator=random)

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """Nothing: every sample costs the same."""
        return {}
