"""Boxes as ymin, xmin, ymax, xmax in pixels: areas, overlaps, offsets, anchors and targets."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# A predicted box is at most 62.5 times as large as its reference (Detectron's limit), so that exp() cannot overflow.
LARGEST_LOG_RATIO = math.log(1000 / 16)
# Weights of the deltas of centre and size, relative to an anchor and to a region (Girshick 2015 divides by 0.1, 0.2).
FROM_ANCHOR, FROM_REGION = (1.0, 1.0), (10.0, 5.0)
SMALLEST_UNION = 1e-12  # avoids 0/0 for two boxes without area


def area(boxes: Tensor) -> Tensor:
    """The area of each box in pixels²; [..., 4] → [...]."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of each box of `first` with each of `second`; [..., N, 4], [..., M, 4] → [..., N, M]."""
    shared = _shared_length(first, second, 0).mul_(_shared_length(first, second, 1))
    union = (area(first)[..., :, None] + area(second)[..., None, :]).sub_(shared)
    return shared.div_(union.clamp_(min=SMALLEST_UNION))


def _shared_length(first: Tensor, second: Tensor, axis: int) -> Tensor:
    low = torch.maximum(first[..., :, None, axis], second[..., None, :, axis])
    high = torch.minimum(first[..., :, None, axis + 2], second[..., None, :, axis + 2])
    return high.sub_(low).clamp_(min=0)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """The part of each box inside the image."""
    y, x = boxes[..., 0::2].clamp(0, height), boxes[..., 1::2].clamp(0, width)
    return torch.stack([y, x], dim=-1).flatten(-2)


def have_area(boxes: Tensor, min_side: float = 0.0) -> Tensor:
    """Whether each box has a height and a width above `min_side`; false for NaN."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return (sides > min_side).all(dim=-1)


def encode(boxes: Tensor, references: Tensor, weights: tuple[float, float]) -> Tensor:
    """The weighted deltas of boxes to their references: centre in reference sizes, size as a logarithm."""
    centre, size = _centre_and_size(boxes)
    reference_centre, reference_size = _centre_and_size(references)
    moved = (centre - reference_centre) / reference_size
    scaled = torch.log(size / reference_size)
    return torch.cat([moved * weights[0], scaled * weights[1]], dim=-1)


def decode(deltas: Tensor, references: Tensor, weights: tuple[float, float]) -> Tensor:
    """The boxes with these deltas to their references; the reverse of `encode`."""
    reference_centre, reference_size = _centre_and_size(references)
    centre = reference_centre + deltas[..., :2] / weights[0] * reference_size
    half = reference_size * torch.exp((deltas[..., 2:] / weights[1]).clamp(max=LARGEST_LOG_RATIO)) / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def _centre_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    size = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + size / 2, size


RATIOS = (0.5, 1.0, 2.0)  # height : width, at equal area


def anchors_of_level(height: int, width: int, stride: int, side: float, device: torch.device) -> Tensor:
    """Anchors of side² pixels around the centres of height × width cells; row by row, ratios innermost."""
    ratios = torch.tensor(RATIOS, device=device)
    sizes = torch.stack([side * ratios.sqrt(), side / ratios.sqrt()], dim=-1)
    y = (torch.arange(height, device=device) + 0.5) * stride
    x = (torch.arange(width, device=device) + 0.5) * stride
    centres = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).view(height, width, 1, 2)
    return torch.cat([centres - sizes / 2, centres + sizes / 2], dim=-1).view(-1, 4)


def anchors_of_levels(
    shapes: Sequence[tuple[int, int]], strides: Sequence[int], scale: float, device: torch.device
) -> list[Tensor]:
    """The anchors of each level of a pyramid, `scale` strides large."""
    return [
        anchors_of_level(height, width, stride, scale * stride, device)
        for (height, width), stride in zip(shapes, strides, strict=True)
    ]


class Targets(NamedTuple):
    """The boxes of a batch; rows that are padding or have no area are not present."""

    boxes: Tensor  # [B, G, 4]
    classes: Tensor  # [B, G], int64
    present: Tensor  # [B, G]


def read_targets(targets: Tensor) -> Targets:
    """Targets from rows of ymin, xmin, ymax, xmax, class; a class below 0 is padding."""
    if targets.shape[1] == 0:
        targets = F.pad(targets, (0, 0, 0, 1), value=-1.0)  # a maximum needs at least one box
    targets = targets.float()
    boxes, classes = targets[..., :4], targets[..., 4].long()
    return Targets(boxes, classes, (classes >= 0) & have_area(boxes))
