"""The four losses of a two-stage detector: each image's mean over its drawn candidates, then the mean over images."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainmark.train.torch.detection.boxes import FROM_ANCHOR, FROM_REGION, Targets, encode
from trainmark.train.torch.detection.proposals import Regions
from trainmark.train.torch.detection.sampling import Sample, draw, match_anchors, match_regions, pick

BETA = 1 / 9  # where the box losses turn from square to linear: Ren et al. 2015's code, σ = 3
SHARE_OF_ANCHORS, SHARE_OF_REGIONS = 0.5, 0.25  # at most so many of the drawn are objects


def anchor_losses(anchors: Tensor, objectness: Tensor, deltas: Tensor, targets: Targets, count: int) -> Tensor:
    """Objectness and box loss of `count` anchors drawn from each image."""
    with torch.no_grad():
        matches = match_anchors(anchors, targets)
        sample = draw(matches, count, int(count * SHARE_OF_ANCHORS))
        references = anchors[sample.places]
        boxes = _boxes_to_find(references, targets, sample.of(matches.nearest), sample.is_object)
        wanted = encode(boxes, references, FROM_ANCHOR)
        weights = _weights(sample)
    object_losses = F.binary_cross_entropy_with_logits(
        sample.of(objectness).float(), sample.is_object.float(), reduction="none"
    )
    box_losses = _box_losses(sample.of(deltas).float(), wanted, sample.is_object)
    return ((object_losses + box_losses) * weights).sum()


class DrawnRegions:
    """Regions drawn from the proposals of each image, in one list, with what the box head should say of them."""

    def __init__(self, proposals: Regions, targets: Targets, count: int) -> None:
        with torch.no_grad():
            # The boxes themselves are candidates too, so that there are objects before proposals are any good.
            candidates = torch.cat([proposals.boxes, targets.boxes], dim=1)
            matches = match_regions(candidates, torch.cat([proposals.is_valid, targets.present], dim=1), targets)
            sample = draw(matches, count, int(count * SHARE_OF_REGIONS))
            nearest = sample.of(matches.nearest)
            references = sample.of(candidates)
            boxes = _boxes_to_find(references, targets, nearest, sample.is_object)
            classes = torch.where(sample.is_object, pick(targets.classes, nearest) + 1, 0)
            self.images, places = sample.is_drawn.nonzero(as_tuple=True)
            drawn = (self.images, places)
            self.boxes = references[drawn]
            self._classes = classes[drawn]
            self._wanted = encode(boxes[drawn], self.boxes, FROM_REGION)
            self._weights = _weights(sample)[drawn]

    def losses(self, classes: Tensor, deltas: Tensor) -> Tensor:
        """Class and box loss of what the box head said; of its boxes only that of the region's class counts."""
        class_losses = F.cross_entropy(classes.float(), self._classes, reduction="none")
        own = deltas.float()[torch.arange(len(deltas), device=deltas.device), self._classes]
        box_losses = _box_losses(own, self._wanted, self._classes > 0)
        return ((class_losses + box_losses) * self._weights).sum()


def _boxes_to_find(references: Tensor, targets: Targets, nearest: Tensor, is_object: Tensor) -> Tensor:
    """The box that each candidate should move to; background stays, so that nothing is divided by no size."""
    return torch.where(is_object[..., None], pick(targets.boxes, nearest), references)


def _box_losses(deltas: Tensor, wanted: Tensor, is_object: Tensor) -> Tensor:
    losses = F.smooth_l1_loss(deltas, wanted, reduction="none", beta=BETA).sum(dim=-1)
    return losses * is_object


def _weights(sample: Sample) -> Tensor:
    """What a candidate counts in the mean of its image and the mean over images; 0 where none was drawn."""
    drawn_of_image = sample.is_drawn.sum(dim=1, keepdim=True).clamp(min=1)
    return sample.is_drawn / (drawn_of_image * len(sample.is_drawn))
