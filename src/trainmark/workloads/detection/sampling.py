"""Sampling: a few candidates of each image, drawn at random, so that background does not drown the objects."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainmark.workloads.detection.matching import Matches


class Sample(NamedTuple):
    """Places of drawn candidates; where there were too few, `is_drawn` is false and the place means nothing."""

    places: Tensor  # [B, S]
    is_drawn: Tensor  # [B, S]
    is_object: Tensor  # [B, S]

    def of(self, values: Tensor) -> Tensor:
        """The values of the drawn candidates; [B, N, ...] → [B, S, ...]."""
        return pick(values, self.places)


def pick(values: Tensor, places: Tensor) -> Tensor:
    """Values at places of the second dimension; [B, N, ...], [B, S] → [B, S, ...]."""
    index = places.view(*places.shape, *(1 for _ in values.shape[2:])).expand(*places.shape, *values.shape[2:])
    return values.gather(1, index)


def draw(matches: Matches, count: int, most_objects: int) -> Sample:
    """Up to `most_objects` objects of each image, and as much background as makes `count` of them."""
    chance = torch.rand(matches.is_object.shape, device=matches.is_object.device)
    objects, drawn_objects = _first(chance, matches.is_object, most_objects)
    background, drawn_background = _first(chance, matches.is_background, count)
    room = count - drawn_objects.sum(dim=1, keepdim=True)
    drawn_background &= torch.arange(background.shape[1], device=room.device) < room
    return Sample(
        torch.cat([objects, background], dim=1),
        torch.cat([drawn_objects, drawn_background], dim=1),
        torch.cat([drawn_objects, torch.zeros_like(drawn_background)], dim=1),
    )


def _first(chance: Tensor, among: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` candidates of the highest chance among some of them."""
    order = chance.masked_fill(~among, -1.0).topk(min(count, chance.shape[1]), dim=1)
    return order.indices, order.values >= 0
