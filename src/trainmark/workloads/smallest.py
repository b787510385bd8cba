"""The smallest image that a model takes, as its module states; read from its source, so that no torch is needed."""

from collections.abc import Sequence

from trainmark.spec.registries import MODELS


def too_small(model: str, shape: Sequence[int]) -> int | None:
    """The side that images must have at least, where those of `shape` (channels, height, width) fall short of it."""
    smallest: int | None = MODELS.constant(model, "SMALLEST_SIDE")
    return smallest if smallest is not None and len(shape) == 3 and min(shape[1:]) < smallest else None
