"""How the colours of a training image are changed at random: brightness, contrast, saturation, hue, and to grey."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

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
