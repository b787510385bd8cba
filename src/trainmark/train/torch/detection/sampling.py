"""Matching of candidates to the target boxes of their image, and random sampling of objects and background."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainmark.train.torch.detection.boxes import Targets, overlap

# Ren et al. 2015, 3.1.2, and Girshick 2015, 2.3.
ANCHOR_IS_OBJECT, ANCHOR_IS_BACKGROUND = 0.7, 0.3
REGION_IS_OBJECT = 0.5


class Matches(NamedTuple):
    """For each candidate its best-matching box, and whether it is object, background or neither."""

    nearest: Tensor  # [B, N], row of the targets
    is_object: Tensor  # [B, N]
    is_background: Tensor  # [B, N]


def match_anchors(anchors: Tensor, targets: Targets) -> Matches:
    """Objects overlap a box by 0.7 or more, or best of all anchors; background overlaps all by less than 0.3."""
    overlaps = _overlaps(anchors, targets)
    most, nearest = overlaps.max(dim=2)
    most_of_box = overlaps.amax(dim=1, keepdim=True)
    is_best = ((overlaps == most_of_box) & (most_of_box > 0)).any(dim=2)
    is_object = (most >= ANCHOR_IS_OBJECT) | is_best
    return Matches(nearest, is_object, (most < ANCHOR_IS_BACKGROUND) & ~is_object)


def match_regions(regions: Tensor, is_valid: Tensor, targets: Targets) -> Matches:
    """Objects overlap a box by 0.5 or more, background by less; invalid regions are neither."""
    most, nearest = _overlaps(regions, targets).max(dim=2)
    return Matches(nearest, is_valid & (most >= REGION_IS_OBJECT), is_valid & (most < REGION_IS_OBJECT))


def _overlaps(candidates: Tensor, targets: Targets) -> Tensor:
    """[B, N, G]; 0 for rows that are not present. Candidates are [N, 4] for all images or [B, N, 4]."""
    return overlap(candidates, targets.boxes) * targets.present[:, None, :]


class Sample(NamedTuple):
    """Indices of sampled candidates; padded, with `is_drawn` false, if there were too few."""

    places: Tensor  # [B, S]
    is_drawn: Tensor  # [B, S]
    is_object: Tensor  # [B, S]

    def of(self, values: Tensor) -> Tensor:
        """The values of the drawn candidates; [B, N, ...] → [B, S, ...]."""
        return pick(values, self.places)


def pick(values: Tensor, places: Tensor) -> Tensor:
    """Gathers values along the second dimension; [B, N, ...], [B, S] → [B, S, ...]."""
    index = places.view(*places.shape, *(1 for _ in values.shape[2:])).expand(*places.shape, *values.shape[2:])
    return values.gather(1, index)


def draw(matches: Matches, count: int, max_objects: int) -> Sample:
    """Samples up to `max_objects` objects per image, and background up to `count` in total."""
    chance = torch.rand(matches.is_object.shape, device=matches.is_object.device)
    objects, drawn_objects = _first(chance, matches.is_object, max_objects)
    background, drawn_background = _first(chance, matches.is_background, count)
    room = count - drawn_objects.sum(dim=1, keepdim=True)
    drawn_background &= torch.arange(background.shape[1], device=room.device) < room
    return Sample(
        torch.cat([objects, background], dim=1),
        torch.cat([drawn_objects, drawn_background], dim=1),
        torch.cat([drawn_objects, torch.zeros_like(drawn_background)], dim=1),
    )


def _first(chance: Tensor, eligible: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` candidates with the highest `chance` among the eligible ones."""
    order = chance.masked_fill(~eligible, -1.0).topk(min(count, chance.shape[1]), dim=1)
    return order.indices, order.values >= 0
