"""Ten classes of shapes on 32 × 32 colour images, generated from a seed, with noise, clutter and label noise."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainmark.data.split import MAX_SAMPLES, Split, SplitName
from trainmark.spec.config import StrictSection

IMAGE_SIZE = 32
NUM_CLASSES = 10
EDGE_SOFTNESS = 0.06
CHUNK = 250  # images drawn at a time: their arrays stay in the cache

Array = NDArray[np.float32]


class ShapesSettings(StrictSection):
    """The number of images, and how hard they are to classify."""

    num_train: int = Field(4000, ge=1, le=MAX_SAMPLES, description="training images")
    num_eval: int = Field(2000, ge=1, le=MAX_SAMPLES, description="held-out images")
    seed: int = Field(1, ge=0, description="seed of the dataset itself")
    noise: float = Field(0.3, ge=0, description="standard deviation of pixel noise; contrast is about 0.8")
    label_noise: float = Field(0.05, ge=0, le=1, description="share of images whose label is replaced at random")


class Shapes:
    """Ten classes of shapes on 32 × 32 colour images, generated from a seed, with noise, clutter and label noise."""

    Settings = ShapesSettings
    augmentations = ("none", "flip-shift")
    num_classes = NUM_CLASSES
    sample_shape = (3, IMAGE_SIZE, IMAGE_SIZE)

    def __init__(self, settings: ShapesSettings) -> None:
        self.settings = settings

    def num_samples(self, split: SplitName) -> int:
        """The number of samples of a split, without generating them."""
        return self.settings.num_train if split == "train" else self.settings.num_eval

    def load(self, split: SplitName) -> Split:
        """The images (uint8, N × 3 × 32 × 32) and labels of a split."""
        rng = np.random.default_rng([self.settings.seed, 0 if split == "train" else 1])
        count = self.num_samples(split)
        kinds = rng.integers(0, NUM_CLASSES, count)
        images = np.empty((count, 3, IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        for start in range(0, count, CHUNK):
            chunk = slice(start, start + CHUNK)
            images[chunk] = _draw(kinds[chunk], self.settings.noise, rng)
        wrong = rng.random(count) < self.settings.label_noise
        labels = np.where(wrong, rng.integers(0, NUM_CLASSES, count), kinds)
        return Split(images, labels.astype(np.int64), offset=128.0, scale=64.0)


def _draw(kinds: NDArray[np.int64], noise: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Images with values about −1…1 stored as 64·value + 128."""
    count = len(kinds)
    axis = ((np.arange(IMAGE_SIZE) + 0.5) / IMAGE_SIZE * 2 - 1).astype(np.float32)
    x, y = np.meshgrid(axis, axis)
    background = -0.7 + _uniform(rng, -0.35, 0.35, count, 3, 1, 1)
    contrast = _uniform(rng, 0.3, 1.3, count, 3, 1, 1)
    slope_x, slope_y = _uniform(rng, -0.25, 0.25, count, 3, 1, 1), _uniform(rng, -0.25, 0.25, count, 3, 1, 1)
    image = background + slope_x * x + slope_y * y + contrast * _masks(kinds, x, y, rng)[:, None]
    # A thin bar across the picture, of any colour and direction, hides part of the shape.
    angle, offset = _uniform(rng, 0, np.pi, count, 1, 1), _uniform(rng, -0.8, 0.8, count, 1, 1)
    bar = np.abs(x * np.cos(angle) + y * np.sin(angle) - offset) < 0.08
    image = np.where(bar[:, None], _uniform(rng, -1, 0.6, count, 3, 1, 1), image)
    image += np.float32(noise) * rng.standard_normal(image.shape, dtype=np.float32)
    stored: NDArray[np.uint8] = np.clip(image * 64 + 128, 0, 255).astype(np.uint8)
    return stored


def _masks(kinds: NDArray[np.int64], x: Array, y: Array, rng: np.random.Generator) -> Array:
    """Soft masks of the shapes, each shifted, scaled and rotated at random."""
    count = len(kinds)
    move_x, move_y = _uniform(rng, -0.3, 0.3, count, 1, 1), _uniform(rng, -0.3, 0.3, count, 1, 1)
    size, turn = _uniform(rng, 0.5, 0.85, count, 1, 1), _uniform(rng, -0.5, 0.5, count, 1, 1)
    across, down = (x - move_x) / size, (y - move_y) / size
    u = across * np.cos(turn) + down * np.sin(turn)
    v = down * np.cos(turn) - across * np.sin(turn)
    distance = np.empty_like(u)
    for kind, shape in enumerate(SHAPES):
        chosen = kinds == kind
        distance[chosen] = shape(u[chosen], v[chosen])
    return (1 / (1 + np.exp(distance / np.float32(EDGE_SOFTNESS)))).astype(np.float32)


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Array:
    return rng.uniform(low, high, shape).astype(np.float32)


def _radius(u: Array, v: Array) -> Array:
    return np.hypot(u, v)


def _square(u: Array, v: Array) -> Array:
    return np.maximum(np.abs(u), np.abs(v))


def _box(u: Array, v: Array, half_width: float, half_height: float) -> Array:
    return np.maximum(np.abs(u) - half_width, np.abs(v) - half_height)


def _triangle(u: Array, v: Array) -> Array:
    sides: Array = np.maximum(np.maximum(0.866 * u + 0.5 * v, -0.866 * u + 0.5 * v), -v)
    return sides - 0.5


# Distance from the edge, negative inside; a shape's position is its class.
SHAPES: tuple[Callable[[Array, Array], Array], ...] = (
    lambda u, v: _radius(u, v) - 0.8,  # disc
    lambda u, v: np.abs(_radius(u, v) - 0.65) - 0.2,  # ring
    lambda u, v: _square(u, v) - 0.72,  # square
    lambda u, v: np.abs(_square(u, v) - 0.6) - 0.17,  # frame
    _triangle,
    lambda u, v: np.minimum(_box(u, v, 0.9, 0.28), _box(u, v, 0.28, 0.9)),  # cross
    lambda u, v: _radius(u, v) - 0.65 - 0.28 * np.cos(5 * np.arctan2(v, u)),  # star
    lambda u, v: np.maximum(_radius(u, v) - 0.85, 0.62 - _radius(u - 0.4, v)),  # crescent
    lambda u, v: np.maximum(np.abs(np.abs(v) - 0.5) - 0.22, np.abs(u) - 0.85),  # two bars
    lambda u, v: np.maximum(_radius(u, v) - 0.9, -u),  # half disc
)
