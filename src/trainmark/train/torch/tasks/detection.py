"""Boxes with a class in each sample: the model's own loss, its best detections as predictions."""

import torch
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts

MADE_UP_BOXES = 4  # in each made-up image


class Detection:
    """Boxes with a class in each sample: the model's own loss, its best detections as predictions."""

    @staticmethod
    def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the model's losses; what it proposes depends on the targets, so it computes them itself."""
        loss: Tensor = model(inputs, targets)
        return loss

    @staticmethod
    def loss_of_outputs(outputs: Tensor, targets: Tensor) -> Tensor:
        """There is none: the plan splits no detector, since none states NUM_LAYERS."""
        raise AssertionError("the plan has checked it")

    @staticmethod
    def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
        """ymin, xmin, ymax, xmax, score and class of each detection, padded with −1."""
        detections: Tensor = model(inputs)
        return detections.float()

    @staticmethod
    def made_up_targets(batch_size: int, shape: tuple[int, ...], num_classes: int, random: torch.Generator) -> Tensor:
        """A few boxes of any class, a fourth of the image high and wide."""
        size = torch.tensor(shape[1:], device=random.device, dtype=torch.float32)
        few = (batch_size, MADE_UP_BOXES)
        corners = torch.rand(*few, 2, device=random.device, generator=random) * size * 0.75
        classes = torch.randint(num_classes, (*few, 1), device=random.device, generator=random)
        return torch.cat([corners, corners + size / 4, classes], dim=2)

    @staticmethod
    def facts(model: nn.Module) -> EpochFacts:
        """How many proposals went through the box head, of how many images: a sample's FLOPs depend on it."""
        images, proposals = model.take_seen()  # type: ignore[operator]
        return {"images_seen": images, "proposals_seen": proposals}
