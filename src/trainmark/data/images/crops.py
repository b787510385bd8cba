"""Which part of an image is seen: crops drawn at random for training, the middle for evaluation; pure arithmetic."""

import math
from typing import NamedTuple

import numpy as np

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
