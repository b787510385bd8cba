"""How an image is seen: which part of it, mirrored or not, in which colours."""

from dataclasses import dataclass

import numpy as np

from trainmark.data.images.colour import ColourChange, random_colours
from trainmark.data.images.crops import Box, centre_square, random_box

MILD_SCALES = (0.8, 1.0)  # of "crop-colour": pictures that show one object from edge to edge


@dataclass(frozen=True)
class View:
    """A part of an image, mirrored or not, and what happens to its colours."""

    box: Box
    is_mirrored: bool = False
    colours: ColourChange | None = None


def evaluation_view(width: int, height: int, share: float) -> View:
    """The square in the middle, unchanged."""
    return View(centre_square(width, height, share))


def random_view(augmentation: str, width: int, height: int, random: np.random.Generator) -> View:
    """A view of the kind `augmentation`."""
    if augmentation == "crop":
        return View(random_box(width, height, random), _tossed(random))
    assert augmentation == "crop-colour", augmentation
    return View(random_box(width, height, random, MILD_SCALES), _tossed(random), random_colours(random))


def _tossed(random: np.random.Generator) -> bool:
    return bool(random.random() < 0.5)
