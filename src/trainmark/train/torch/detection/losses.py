"""The four losses of a two-stage detector: each image's mean over its drawn candidates, then the mean over images."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainmark.train.torch.detection.boxes import FROM_ANCHOR, FROM_REGION, Targets, encode
from trainmark.train.torch.detection.proposals import Regions
from trainmark.train.torch.detection.sampling import Sample, draw, match_anchors, match_regions, pick

BETA = 1 / 9  # where the box losses turn from square to linear: Ren et al. 2015's code, σ = 3
ANCHOR_OBJECT_SHARE, REGION_OBJECT_SHARE = 0.5, 0.25  # the largest fraction of objects among the sampled


def anchor_losses(anchors: Tensor, objectness: Tensor, deltas: Tensor, targets: Targets, count: int) -> Tensor:
    """Objectness and box loss of `count` anchors drawn from each image."""
    with torch.no_grad():
        matches = match_anchors(anchors, targets)
        sample = draw(matches, count, int(count * ANCHOR_OBJECT_SHARE))
        references = anchors[sample.places]
        boxes = _target_boxes(references, targets, sample.of(matches.nearest), sample.is_object)
        wanted = encode(boxes, references, FROM_ANCHOR)
        weights = _weights(sample)
    object_losses = F.binary_cross_entropy_with_logits(
        sample.of(objectness).float(), sample.is_object.float(), reduction="none"
    )
    box_losses = _box_losses(sample.of(deltas).float(), wanted, sample.is_object)
    return ((object_losses + box_losses) * weights).sum()


class DrawnRegions:
    """Regions sampled from the proposals of each image, in one list, with the targets of the box head."""

    def __init__(self, proposals: Regions, targets: Targets, count: int) -> None:
        with torch.no_grad():
            # The target boxes are candidates too, so that there are objects while proposals are still poor.
            candidates = torch.cat([proposals.boxes, targets.boxes], dim=1)
            matches = match_regions(candidates, torch.cat([proposals.is_valid, targets.present], dim=1), targets)
            sample = draw(matches, count, int(count * REGION_OBJECT_SHARE))
            nearest = sample.of(matches.nearest)
            references = sample.of(candidates)
            boxes = _target_boxes(references, targets, nearest, sample.is_object)
            classes = torch.where(sample.is_object, pick(targets.classes, nearest) + 1, 0)
            self.images, places = sample.is_drawn.nonzero(as_tuple=True)
            drawn = (self.images, places)
            self.boxes = references[drawn]
            self._classes = classes[drawn]
            self._wanted = encode(boxes[drawn], self.boxes, FROM_REGION)
            self._weights = _weights(sample)[drawn]

    def losses(self, classes: Tensor, deltas: Tensor) -> Tensor:
        """Class and box loss of the box head's outputs; only the box of the region's class counts."""
        class_losses = F.cross_entropy(classes.float(), self._classes, reduction="none")
        of_class = deltas.float()[torch.arange(len(deltas), device=deltas.device), self._classes]
        box_losses = _box_losses(of_class, self._wanted, self._classes > 0)
        return ((class_losses + box_losses) * self._weights).sum()


def _target_boxes(references: Tensor, targets: Targets, nearest: Tensor, is_object: Tensor) -> Tensor:
    """The target box of each candidate; background keeps its own box, which avoids division by zero."""
    return torch.where(is_object[..., None], pick(targets.boxes, nearest), references)


def _box_losses(deltas: Tensor, wanted: Tensor, is_object: Tensor) -> Tensor:
    losses = F.smooth_l1_loss(deltas, wanted, reduction="none", beta=BETA).sum(dim=-1)
    return losses * is_object


def _weights(sample: Sample) -> Tensor:
    """The weight of a candidate in the mean over its image and over images; 0 if not drawn."""
    drawn_of_image = sample.is_drawn.sum(dim=1, keepdim=True).clamp(min=1)
    return sample.is_drawn / (drawn_of_image * len(sample.is_drawn))
