"""Targets as tensors of one shape: the boxes of each image, and which rows of them are real."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from trainmark.workloads.detection.boxes import are_solid


class Targets(NamedTuple):
    """The boxes of a batch; rows that are padding or have no area are not present."""

    boxes: Tensor  # [B, G, 4]
    classes: Tensor  # [B, G], int64
    present: Tensor  # [B, G]


def read_targets(targets: Tensor) -> Targets:
    """Targets from rows of ymin, xmin, ymax, xmax, class; a class below 0 is padding."""
    if targets.shape[1] == 0:
        targets = F.pad(targets, (0, 0, 0, 1), value=-1.0)  # maxima over no box at all do not exist
    targets = targets.float()
    boxes, classes = targets[..., :4], targets[..., 4].long()
    return Targets(boxes, classes, (classes >= 0) & are_solid(boxes))
