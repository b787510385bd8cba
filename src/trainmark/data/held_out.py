"""Which held-out samples are predicted: all of them, or a fixed number, balanced over the classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 500  # not that of the run: runs of all seeds are scored on the same samples


def evaluated_samples(labels: NDArray[Any], limit: int | None) -> NDArray[np.int64]:
    """The samples to predict, ascending: all, or `limit` of them, as many of each class as there are.

    Those of a smaller limit are among those of a larger one. Labels that are no class numbers are not balanced.
    """
    count = len(labels)
    if limit is None or limit >= count:
        return np.arange(count, dtype=np.int64)
    shuffled = np.random.default_rng(SEED).permutation(count)
    turns = _turns(labels[shuffled]) if labels.ndim == 1 else np.zeros(count, np.int64)
    return np.sort(shuffled[np.argsort(turns, kind="stable")][:limit]).astype(np.int64)


def _turns(classes: NDArray[Any]) -> NDArray[np.int64]:
    """How many samples of its class precede each sample."""
    order = np.argsort(classes, kind="stable")
    _, starts, counts = np.unique(classes[order], return_index=True, return_counts=True)
    turns = np.empty(len(classes), np.int64)
    turns[order] = np.arange(len(classes)) - np.repeat(starts, counts)
    return turns
