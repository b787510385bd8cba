"""Detections: the boxes that stay after the box head has seen the proposals, best first."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainmark.workloads.detection.boxes import FROM_REGION, are_solid, clip, decode
from trainmark.workloads.detection.nms import surviving
from trainmark.workloads.detection.proposals import LEAST_SIDE, Regions
from trainmark.workloads.detection.sampling import pick
from trainmark.workloads.detection.settings import DetectorSettings

PADDING = -1.0


@torch.no_grad()
def detect(
    proposals: Regions, classes: Tensor, deltas: Tensor, image_size: tuple[int, int], settings: DetectorSettings
) -> Tensor:
    """ymin, xmin, ymax, xmax, score, class of each image's best detections [B, detections, 6]; padding is −1.

    What the box head said is given for the valid proposals, in one list.
    """
    batch, columns = proposals.is_valid.shape
    num_classes = classes.shape[1] - 1
    drawn = proposals.is_valid.nonzero(as_tuple=True)
    found = decode(deltas[:, 1:].float(), proposals.boxes[drawn][:, None], FROM_REGION)
    boxes = found.new_zeros(batch, columns, num_classes, 4)
    boxes[drawn] = clip(found, *image_size)
    scores = found.new_zeros(batch, columns, num_classes)
    scores[drawn] = classes.float().softmax(dim=1)[:, 1:]
    # A group for each class of each image; best first.
    boxes, scores = boxes.transpose(1, 2).flatten(0, 1), scores.transpose(1, 2).flatten(0, 1)
    boxes, scores = _candidates(boxes, scores, settings.score_threshold)
    stays = surviving(boxes, scores > settings.score_threshold, settings.detection_overlap)
    scores = scores.masked_fill(~stays, -torch.inf)
    boxes, scores = boxes.view(batch, num_classes, *boxes.shape[1:]), scores.view(batch, num_classes, scores.shape[1])
    return _best(boxes, scores, settings.detections)


def _candidates(boxes: Tensor, scores: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Boxes and scores of each group, best first, in as many columns as the fullest group needs."""
    scores = scores.masked_fill(~are_solid(boxes, LEAST_SIDE), 0.0)
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
