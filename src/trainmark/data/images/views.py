"""How an image is seen: which part of it, mirrored or not, in which colours."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# Published for training on ImageNet and used by all recipes since: 8 to 100 % of the area, sides 3:4 to 4:3, ten tries.
SCALES = (0.08, 1.0)
RATIOS = (3 / 4, 4 / 3)
TRIES = 10
DECODING_SHRINKS = (8, 4, 2)  # a JPEG decoder halves sides by leaving out high frequencies of its 8 × 8 blocks


class Box(NamedTuple):
    """A rectangle in pixels of the image as stored."""

    left: float
    top: float
    width: float
    height: float

    def shrunk(self, times: int) -> "Box":
        """The same part of the image after its sides were divided by `times`."""
        return Box(*(value / times for value in self))


def random_box(width: int, height: int, random: np.random.Generator, scales: tuple[float, float] = SCALES) -> Box:
    """A part of random area, shape and place; the widest allowed one in the middle if ten tries do not fit."""
    log_ratios = math.log(RATIOS[0]), math.log(RATIOS[1])
    for _ in range(TRIES):
        area = width * height * random.uniform(*scales)
        ratio = math.exp(random.uniform(*log_ratios))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = random.integers(0, (width - across + 1, height - down + 1))
            return Box(int(left), int(top), across, down)
    return widest_box(width, height)


def widest_box(width: int, height: int) -> Box:
    """The largest part in the middle whose sides are within the allowed ratios."""
    across = min(width, max(1, round(height * RATIOS[1])))
    down = min(height, max(1, round(width / RATIOS[0])))
    return Box((width - across) / 2, (height - down) / 2, across, down)


def centre_square(width: int, height: int, share: float) -> Box:
    """The square in the middle whose side is `share` of the shorter side."""
    side = min(width, height) * share
    return Box((width - side) / 2, (height - side) / 2, side, side)


def decoding_shrink(box: Box, size: int) -> int:
    """By how much a decoder may divide the sides so that the box still has `size` pixels or more each way."""
    return next((shrink for shrink in DECODING_SHRINKS if min(box.width, box.height) >= shrink * size), 1)


STRENGTH = 0.4  # factors are drawn from 1 − 0.4 … 1 + 0.4, the turn of hue from −0.4 … 0.4 of the circle
GREY_PROBABILITY = 0.1
STEPS = 4
VALUES = np.arange(256)


@dataclass(frozen=True)
class ColourChange:
    """Factors of 1 and a turn of 0 change nothing; `order` is that of brightness, contrast, saturation and hue."""

    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0
    hue_turn: float = 0.0
    order: tuple[int, ...] = tuple(range(STEPS))
    to_grey: bool = False


def random_colours(random: np.random.Generator) -> ColourChange:
    """A change of all four, in a random order, and now and then to grey."""
    brightness, contrast, saturation, hue_turn = random.uniform(-STRENGTH, STRENGTH, STEPS).tolist()
    return ColourChange(
        brightness=1 + brightness,
        contrast=1 + contrast,
        saturation=1 + saturation,
        hue_turn=hue_turn,
        order=tuple(random.permutation(STEPS).tolist()),
        to_grey=bool(random.random() < GREY_PROBABILITY),
    )


def change_colours(image: "Image", change: ColourChange) -> "Image":
    """The RGB image with its colours changed."""
    steps: tuple[Callable[[Image], Image], ...] = (
        lambda image: _brightened(image, change.brightness),
        lambda image: _contrasted(image, change.contrast),
        lambda image: _saturated(image, change.saturation),
        lambda image: _turned(image, change.hue_turn),
    )
    for step in change.order:
        image = steps[step](image)
    return image.convert("L").convert("RGB") if change.to_grey else image


def _brightened(image: "Image", factor: float) -> "Image":
    return image.point(_table(VALUES * factor) * 3)


def _contrasted(image: "Image", factor: float) -> "Image":
    """Values move away from, or towards, the mean grey of the image."""
    mean = np.dot(VALUES, image.convert("L").histogram()) / (image.width * image.height)
    return image.point(_table(mean + factor * (VALUES - mean)) * 3)


def _saturated(image: "Image", factor: float) -> "Image":
    """Values move away from, or towards, the grey of their own pixel."""
    from PIL import Image

    return Image.blend(image.convert("L").convert("RGB"), image, factor)


def _turned(image: "Image", turn: float) -> "Image":
    """Hues move along the colour circle; saturation and value stay."""
    moved = round(turn * 256)
    if moved % 256 == 0:
        return image
    keep = _table(VALUES)
    return image.convert("HSV").point(_table((VALUES + moved) % 256) + keep + keep).convert("RGB")


def _table(values: NDArray[Any]) -> list[int]:
    """What each of the 256 stored values becomes."""
    table: list[int] = np.clip(np.rint(values), 0, 255).astype(int).tolist()
    return table


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
