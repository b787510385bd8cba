"""Views of an image: crop, mirroring and colour jitter."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# The usual random-resized crop for ImageNet: 8 to 100 % of the area, aspect ratio 3:4 to 4:3, ten tries.
SCALES = (0.08, 1.0)
RATIOS = (3 / 4, 4 / 3)
TRIES = 10
DECODING_SHRINKS = (8, 4, 2)  # JPEG decoders downscale by dropping high frequencies of the 8 × 8 blocks


class Box(NamedTuple):
    """A rectangle in pixels of the image as stored."""

    left: float
    top: float
    width: float
    height: float

    def shrunk(self, times: int) -> "Box":
        """The same box after downscaling the image by `times`."""
        return Box(*(value / times for value in self))


def random_box(width: int, height: int, random: np.random.Generator, scales: tuple[float, float] = SCALES) -> Box:
    """A box of random area, aspect ratio and position; the widest central one if ten tries do not fit."""
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
    """The largest central box within the allowed aspect ratios."""
    across = min(width, max(1, round(height * RATIOS[1])))
    down = min(height, max(1, round(width / RATIOS[0])))
    return Box((width - across) / 2, (height - down) / 2, across, down)


def centre_square(width: int, height: int, share: float) -> Box:
    """The central square whose side is `share` of the shorter side."""
    side = min(width, height) * share
    return Box((width - side) / 2, (height - side) / 2, side, side)


def decoding_shrink(box: Box, size: int) -> int:
    """The largest downscaling by the decoder that leaves the box at least `size` pixels wide and high."""
    return next((shrink for shrink in DECODING_SHRINKS if min(box.width, box.height) >= shrink * size), 1)


STRENGTH = 0.4  # factors from 1 − 0.4 to 1 + 0.4, hue shift from −0.4 to 0.4 of the circle
GREY_PROBABILITY = 0.1
STEPS = 4
VALUES = np.arange(256)


@dataclass(frozen=True)
class ColourChange:
    """Colour jitter; `order` is that of brightness, contrast, saturation and hue."""

    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0
    hue_shift: float = 0.0
    order: tuple[int, ...] = tuple(range(STEPS))
    to_grey: bool = False


def random_colours(random: np.random.Generator) -> ColourChange:
    """Random changes of all four, in random order, and sometimes to grey."""
    brightness, contrast, saturation, hue_shift = random.uniform(-STRENGTH, STRENGTH, STEPS).tolist()
    return ColourChange(
        brightness=1 + brightness,
        contrast=1 + contrast,
        saturation=1 + saturation,
        hue_shift=hue_shift,
        order=tuple(random.permutation(STEPS).tolist()),
        to_grey=bool(random.random() < GREY_PROBABILITY),
    )


def change_colours(image: "Image", change: ColourChange) -> "Image":
    """The RGB image with its colours changed."""
    steps: tuple[Callable[[Image], Image], ...] = (
        lambda image: _brightened(image, change.brightness),
        lambda image: _contrasted(image, change.contrast),
        lambda image: _saturated(image, change.saturation),
        lambda image: _hue_shifted(image, change.hue_shift),
    )
    for step in change.order:
        image = steps[step](image)
    return image.convert("L").convert("RGB") if change.to_grey else image


def _brightened(image: "Image", factor: float) -> "Image":
    return image.point(_table(VALUES * factor) * 3)


def _contrasted(image: "Image", factor: float) -> "Image":
    """Scales the distance of values to the mean grey of the image."""
    mean = np.dot(VALUES, image.convert("L").histogram()) / (image.width * image.height)
    return image.point(_table(mean + factor * (VALUES - mean)) * 3)


def _saturated(image: "Image", factor: float) -> "Image":
    """Scales the distance of values to the grey of their pixel."""
    from PIL import Image

    return Image.blend(image.convert("L").convert("RGB"), image, factor)


def _hue_shifted(image: "Image", shift: float) -> "Image":
    """Shifts the hue; saturation and value stay."""
    moved = round(shift * 256)
    if moved % 256 == 0:
        return image
    keep = _table(VALUES)
    return image.convert("HSV").point(_table((VALUES + moved) % 256) + keep + keep).convert("RGB")


def _table(values: NDArray[Any]) -> list[int]:
    """The lookup table of the 256 stored values."""
    table: list[int] = np.clip(np.rint(values), 0, 255).astype(int).tolist()
    return table


MILD_SCALES = (0.8, 1.0)  # of "crop-colour": pictures in which the object fills the frame


@dataclass(frozen=True)
class View:
    """A crop of an image, optional mirroring, and colour jitter."""

    box: Box
    is_mirrored: bool = False
    colours: ColourChange | None = None


def evaluation_view(width: int, height: int, share: float) -> View:
    """The central square, not augmented."""
    return View(centre_square(width, height, share))


def random_view(augmentation: str, width: int, height: int, random: np.random.Generator) -> View:
    """A random view for this augmentation."""
    if augmentation == "crop":
        return View(random_box(width, height, random), _coin_flip(random))
    assert augmentation == "crop-colour", augmentation
    return View(random_box(width, height, random, MILD_SCALES), _coin_flip(random), random_colours(random))


def _coin_flip(random: np.random.Generator) -> bool:
    return bool(random.random() < 0.5)
