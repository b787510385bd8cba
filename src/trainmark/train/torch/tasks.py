"""Tasks: loss and predictions of a model."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts

RANDOM_BOXES = 4  # per synthetic image


class Task(Protocol):
    """The loss of a batch, and predictions, from a model."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch."""
        ...

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """The same from the model's outputs, for models whose layers are split over workers."""
        ...

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """One row per sample, of fixed size."""
        ...

    @staticmethod
    def random_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """Targets for random samples, on the generator's device."""
        ...

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """What the model counted in training since the last call; plain values."""
        ...


class Classification:
    """One class per sample: cross-entropy loss, class probabilities as predictions."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of a batch."""
        return Classification.loss_of_outputs(model(inputs), targets)

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """The same from the model's outputs."""
        return F.cross_entropy(outputs.float(), targets)

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """The probability of each class."""
        return F.softmax(model(inputs).float(), dim=1)

    @staticmethod
    def random_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """Random classes."""
        return torch.randint(num_classes, (batch_size,), device=random.device, generator=random)

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """Empty: every sample costs the same."""
        return {}


class Detection:
    """Boxes with a class in each sample: the model's own loss, its best detections as predictions."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the model's losses, which it computes itself: proposals depend on the targets."""
        loss: Tensor = model(inputs, targets)
        return loss

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """Not supported: the plan never splits a detector, whose card declares no layers."""
        raise AssertionError("checked by the plan")

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """ymin, xmin, ymax, xmax, score and class of each detection, padded with −1."""
        detections: Tensor = model(inputs)
        return detections.float()

    @staticmethod
    def random_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """A few boxes of random class, a quarter of the image high and wide."""
        size = torch.tensor(shape[1:], device=random.device, dtype=torch.float32)
        few = (batch_size, RANDOM_BOXES)
        corners = torch.rand(*few, 2, device=random.device, generator=random) * size * 0.75
        classes = torch.randint(num_classes, (*few, 1), device=random.device, generator=random)
        return torch.cat([corners, corners + size / 4, classes], dim=2)

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """The numbers of images and of proposals in the box head: a sample's FLOPs depend on them."""
        images, proposals = model.take_seen()  # type: ignore[operator]
        return {"images_seen": images, "proposals_seen": proposals}
