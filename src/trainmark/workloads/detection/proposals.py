"""Proposals: the regions of each image that a region proposal network thinks worth a closer look."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trainmark.workloads.detection.boxes import FROM_ANCHOR, are_solid, clip, decode
from trainmark.workloads.detection.nms import surviving
from trainmark.workloads.detection.sampling import pick

LEAST_SIDE = 1e-3  # pixels; clipping leaves regions without area


class Regions(NamedTuple):
    """Regions of interest of a batch, as many rows for each image; some mean nothing."""

    boxes: Tensor  # [B, R, 4]
    is_valid: Tensor  # [B, R]


@torch.no_grad()
def propose(
    anchors: Sequence[Tensor],
    objectness: Sequence[Tensor],
    deltas: Sequence[Tensor],
    image_size: tuple[int, int],
    *,
    before_nms: int,
    after_nms: int,
    most_overlap: float,
) -> Regions:
    """The `after_nms` best regions of each image, after suppression within each level's `before_nms` best."""
    columns = min(before_nms, max(len(each) for each in anchors))
    best = [_best_of_level(*level, columns) for level in zip(anchors, objectness, deltas, strict=True)]
    boxes = torch.stack([boxes for boxes, _ in best], dim=1)  # [B, levels, columns, 4]
    scores = torch.stack([scores for _, scores in best], dim=1)
    boxes = clip(boxes, *image_size)
    is_valid = are_solid(boxes, LEAST_SIDE) & (scores > -torch.inf)
    stays = surviving(boxes.flatten(0, 1), is_valid.flatten(0, 1), most_overlap).view(is_valid.shape)
    scores = scores.masked_fill(~stays, -torch.inf).flatten(1)
    chosen = scores.topk(min(after_nms, scores.shape[1]), dim=1)
    return Regions(pick(boxes.flatten(1, 2), chosen.indices), chosen.values > -torch.inf)


def _best_of_level(anchors: Tensor, objectness: Tensor, deltas: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """The best boxes of a level, best first, and their scores; −inf in columns for which it has too few anchors."""
    order = objectness.float().topk(min(columns, len(anchors)), dim=1)
    boxes = decode(pick(deltas, order.indices).float(), anchors[order.indices], FROM_ANCHOR)
    missing = columns - order.values.shape[1]
    return F.pad(boxes, (0, 0, 0, missing)), F.pad(order.values, (0, missing), value=-torch.inf)
