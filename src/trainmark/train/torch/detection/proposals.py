"""Non-maximum suppression, and with it proposals from the region head and detections from the box head."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trainmark.train.torch.detection.boxes import FROM_ANCHOR, FROM_REGION, clip, decode, have_area, overlap
from trainmark.train.torch.detection.heads import DetectorSettings
from trainmark.train.torch.detection.sampling import pick

# Boxes processed together: few, so that most pairs are with boxes already kept; on a GPU more, since every block
# synchronises. For 2000 boxes per group, 128 was fastest of 32 to 256 on a CPU core, 512 (with 256) of 128 to 2048
# on an H200: 8.4 ms for 80 groups, where torchvision's operator, group by group, took 30 ms.
BLOCK_ON_CPU, BLOCK = 128, 512
PAIRS_AT_ONCE = 2**27  # bounds memory: 512 MiB of overlaps


def surviving(boxes: Tensor, is_valid: Tensor, max_overlap: float) -> Tensor:
    """Non-maximum suppression: which valid boxes of each group are kept; [G, N, 4], best first → [G, N]."""
    groups_at_once = max(1, PAIRS_AT_ONCE // (_block_on(boxes.device) * max(1, boxes.shape[1])))
    parts = zip(torch.split(boxes, groups_at_once), torch.split(is_valid, groups_at_once), strict=True)
    return torch.cat([_surviving_of_groups(*part, max_overlap) for part in parts])


def _surviving_of_groups(boxes: Tensor, is_valid: Tensor, max_overlap: float) -> Tensor:
    kept_boxes = boxes.new_zeros(boxes.shape[0], 1, 4)  # a box without area overlaps nothing
    is_kept = [is_valid[:, :0]]
    size = _block_on(boxes.device)
    for block, is_candidate in zip(torch.split(boxes, size, 1), torch.split(is_valid, size, 1), strict=True):
        is_candidate = is_candidate & (overlap(kept_boxes, block).amax(dim=1) <= max_overlap)
        is_kept.append(_suppress(overlap(block, block) > max_overlap, is_candidate))
        kept_boxes = torch.cat([kept_boxes, _packed(block, is_kept[-1])], dim=1)
    return torch.cat(is_kept, dim=1)


def _block_on(device: torch.device) -> int:
    return BLOCK_ON_CPU if device.type == "cpu" else BLOCK


def _suppress(overlaps: Tensor, is_candidate: Tensor) -> Tensor:
    """Which candidates are kept: iterates to the exact fixed point, one more link of each overlap chain per round."""
    before = overlaps.triu(diagonal=1)
    is_kept = is_candidate
    while True:
        updated = is_candidate & ~(before & is_kept[..., None]).any(dim=-2)
        if torch.equal(updated, is_kept):
            return is_kept
        is_kept = updated


def _packed(boxes: Tensor, is_kept: Tensor) -> Tensor:
    """The kept boxes, in as many columns as the largest group needs, padded with zeros."""
    columns = int(is_kept.sum(dim=1).max())
    places = is_kept.int().topk(columns, dim=1).indices
    kept = boxes.masked_fill(~is_kept[..., None], 0.0)
    return kept.gather(1, places[..., None].expand(-1, -1, 4))


MIN_SIDE = 1e-3  # pixels; clipping can leave regions without area


class Regions(NamedTuple):
    """Regions of interest of a batch, padded to the same number of rows per image."""

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
    max_overlap: float,
) -> Regions:
    """The `after_nms` best regions of each image, after suppression within each level's `before_nms` best."""
    columns = min(before_nms, max(len(each) for each in anchors))
    best = [_best_of_level(*level, columns) for level in zip(anchors, objectness, deltas, strict=True)]
    boxes = torch.stack([boxes for boxes, _ in best], dim=1)  # [B, levels, columns, 4]
    scores = torch.stack([scores for _, scores in best], dim=1)
    boxes = clip(boxes, *image_size)
    is_valid = have_area(boxes, MIN_SIDE) & (scores > -torch.inf)
    is_kept = surviving(boxes.flatten(0, 1), is_valid.flatten(0, 1), max_overlap).view(is_valid.shape)
    scores = scores.masked_fill(~is_kept, -torch.inf).flatten(1)
    chosen = scores.topk(min(after_nms, scores.shape[1]), dim=1)
    return Regions(pick(boxes.flatten(1, 2), chosen.indices), chosen.values > -torch.inf)


def _best_of_level(anchors: Tensor, objectness: Tensor, deltas: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """The best boxes of a level, best first, and their scores; padded with −inf if it has too few anchors."""
    order = objectness.float().topk(min(columns, len(anchors)), dim=1)
    boxes = decode(pick(deltas, order.indices).float(), anchors[order.indices], FROM_ANCHOR)
    missing = columns - order.values.shape[1]
    return F.pad(boxes, (0, 0, 0, missing)), F.pad(order.values, (0, missing), value=-torch.inf)


PADDING = -1.0


@torch.no_grad()
def detect(
    proposals: Regions, classes: Tensor, deltas: Tensor, image_size: tuple[int, int], settings: DetectorSettings
) -> Tensor:
    """ymin, xmin, ymax, xmax, score, class of each image's best detections [B, detections, 6]; padding is −1.

    `classes` and `deltas` are the box head's outputs for the valid proposals, in one list.
    """
    batch, columns = proposals.is_valid.shape
    num_classes = classes.shape[1] - 1
    drawn = proposals.is_valid.nonzero(as_tuple=True)
    found = decode(deltas[:, 1:].float(), proposals.boxes[drawn][:, None], FROM_REGION)
    boxes = found.new_zeros(batch, columns, num_classes, 4)
    boxes[drawn] = clip(found, *image_size)
    scores = found.new_zeros(batch, columns, num_classes)
    scores[drawn] = classes.float().softmax(dim=1)[:, 1:]
    # One group per class and image, best first.
    boxes, scores = boxes.transpose(1, 2).flatten(0, 1), scores.transpose(1, 2).flatten(0, 1)
    boxes, scores = _candidates(boxes, scores, settings.score_threshold)
    is_kept = surviving(boxes, scores > settings.score_threshold, settings.detection_overlap)
    scores = scores.masked_fill(~is_kept, -torch.inf)
    boxes, scores = boxes.view(batch, num_classes, *boxes.shape[1:]), scores.view(batch, num_classes, scores.shape[1])
    return _best(boxes, scores, settings.detections)


def _candidates(boxes: Tensor, scores: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Boxes and scores of each group, best first, in as many columns as the largest group needs."""
    scores = scores.masked_fill(~have_area(boxes, MIN_SIDE), 0.0)
    columns = int((scores > threshold).sum(dim=1).max())
    best = scores.topk(columns, dim=1)
    return pick(boxes, best.indices), best.values


def _best(boxes: Tensor, scores: Tensor, count: int) -> Tensor:
    """The best of all classes of each image, padded to `count` rows; [B, classes, N, 4], [B, classes, N]."""
    columns = scores.shape[2]
    best = scores.flatten(1).topk(min(count, scores.shape[1] * columns), dim=1)
    classes = best.indices // max(1, columns)
    rows = torch.cat(
        [pick(boxes.flatten(1, 2), best.indices), best.values[..., None], classes[..., None].float()], dim=-1
    )
    rows = rows.masked_fill((best.values == -torch.inf)[..., None], PADDING)
    return F.pad(rows, (0, 0, 0, count - rows.shape[1]), value=PADDING)
