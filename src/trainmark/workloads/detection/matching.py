"""Matching: which box of an image each anchor or region of interest stands for, and which stand for background."""

from typing import NamedTuple

from torch import Tensor

from trainmark.workloads.detection.boxes import overlap
from trainmark.workloads.detection.targets import Targets

# Ren et al. 2015, 3.1.2, and Girshick 2015, 2.3.
ANCHOR_IS_OBJECT, ANCHOR_IS_BACKGROUND = 0.7, 0.3
REGION_IS_OBJECT = 0.5


class Matches(NamedTuple):
    """For each candidate its nearest box, and whether it counts as object or as background; some count as neither."""

    nearest: Tensor  # [B, N], row of the targets
    is_object: Tensor  # [B, N]
    is_background: Tensor  # [B, N]


def match_anchors(anchors: Tensor, targets: Targets) -> Matches:
    """Objects overlap a box by 0.7, or more than any other anchor does; background overlaps all by less than 0.3."""
    overlaps = _overlaps(anchors, targets)
    most, nearest = overlaps.max(dim=2)
    most_of_box = overlaps.amax(dim=1, keepdim=True)
    is_best = ((overlaps == most_of_box) & (most_of_box > 0)).any(dim=2)
    is_object = (most >= ANCHOR_IS_OBJECT) | is_best
    return Matches(nearest, is_object, (most < ANCHOR_IS_BACKGROUND) & ~is_object)


def match_regions(regions: Tensor, is_valid: Tensor, targets: Targets) -> Matches:
    """Objects overlap a box by 0.5 or more, background by less; regions that are not valid count as neither."""
    most, nearest = _overlaps(regions, targets).max(dim=2)
    return Matches(nearest, is_valid & (most >= REGION_IS_OBJECT), is_valid & (most < REGION_IS_OBJECT))


def _overlaps(candidates: Tensor, targets: Targets) -> Tensor:
    """[B, N, G]; 0 with rows that are not present. Candidates are [N, 4] for all images or [B, N, 4]."""
    return overlap(candidates, targets.boxes) * targets.present[:, None, :]
