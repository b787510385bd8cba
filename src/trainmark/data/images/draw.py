"""Synthetic pictures with a learnable class: a lobed figure of the class's shape and hue on a background."""

import colorsys
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Style = Literal["photo", "painting", "cartoon", "sketch"]
Colour = tuple[int, int, int]

GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it, modulo 1, are well spread for any number of classes
FORMS = 7
CORNERS = 96
NOISE_CELLS = (4, 16, 64)  # across the picture: coarse to fine background noise
COARSE = 4
PHOTO_GRAIN = 0.2  # share of pixel noise: makes files of about 90 kB; ImageNet's have 108 kB on average
JPEG_QUALITY = 90


@dataclass(frozen=True)
class Figure:
    """The common features of a class's pictures."""

    lobes: int
    hue: float


def figure_of(label: int) -> Figure:
    """The figure of a class; hues differ for any number of classes, lobes for the first seven."""
    return Figure(lobes=2 + label % FORMS, hue=(label * GOLDEN) % 1.0)


def draw_picture(figure: Figure, style: Style, width: int, height: int, random: np.random.Generator) -> "Image":
    """An RGB picture of the figure, with random position, rotation and size."""
    from PIL import ImageDraw

    fill, outline = _colours(figure, style, random)
    picture = _background(style, width, height, random)
    corners = _outline(figure, width, height, random)
    draw = ImageDraw.Draw(picture)
    if style != "sketch":
        draw.polygon(corners, fill=fill)
    if style in ("cartoon", "sketch"):
        draw.line([*corners, corners[0]], fill=outline, width=max(2, min(width, height) // 60))
    return _grained(picture, random) if style == "photo" else picture


def write_picture(picture: "Image", path: Path) -> None:
    """Writes the picture, as PNG if the suffix is .png, otherwise as JPEG."""
    picture.save(path, "PNG" if path.suffix == ".png" else "JPEG", quality=JPEG_QUALITY)


def _colours(figure: Figure, style: Style, random: np.random.Generator) -> tuple[Colour, Colour]:
    """The figure's colour, with a slightly random hue, and the colour of outlines."""
    hue = figure.hue + random.uniform(-0.02, 0.02)
    strength = 1.0 if style == "cartoon" else random.uniform(0.5, 0.9)
    return _rgb(hue, strength, random.uniform(0.6, 1.0)), (20, 20, 20)


def _rgb(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue % 1.0, saturation, value))
    return red, green, blue


def _outline(figure: Figure, width: int, height: int, random: np.random.Generator) -> list[tuple[float, float]]:
    size = min(width, height) * random.uniform(0.22, 0.4)
    middle_x, middle_y = width * random.uniform(0.35, 0.65), height * random.uniform(0.35, 0.65)
    turn = random.uniform(0, 2 * math.pi)
    angles = np.linspace(0, 2 * math.pi, CORNERS, endpoint=False)
    radius = size * (1 + 0.35 * np.cos(figure.lobes * angles)) / 1.35
    x, y = middle_x + radius * np.cos(angles + turn), middle_y + radius * np.sin(angles + turn)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _background(style: Style, width: int, height: int, random: np.random.Generator) -> "Image":
    from PIL import Image

    if style == "sketch":
        return Image.new("RGB", (width, height), (255, 255, 255))
    plain = _rgb(random.random(), 0.3, random.uniform(0.3, 0.9))
    picture = Image.new("RGB", (width, height), plain)
    if style == "cartoon":
        return picture
    picture = picture.reduce(COARSE)  # no noise cell is smaller, and 1/16 of the pixels are faster to draw
    for cells in NOISE_CELLS:
        down = max(2, round(cells * height / width))
        noise = Image.fromarray(random.integers(0, 256, (down, cells, 3), dtype=np.uint8))
        resample = Image.Resampling.BILINEAR if style == "photo" else Image.Resampling.NEAREST
        picture = Image.blend(picture, noise.resize(picture.size, resample), 0.25)
    return picture.resize((width, height), resample)


def _grained(picture: "Image", random: np.random.Generator) -> "Image":
    from PIL import Image

    grey = Image.fromarray(random.integers(0, 256, (picture.height, picture.width), dtype=np.uint8))
    return Image.blend(picture, Image.merge("RGB", (grey, grey, grey)), PHOTO_GRAIN)
