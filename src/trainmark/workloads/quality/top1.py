"""Top-1 accuracy; the ensemble's prediction is the mean of its members' probabilities."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Top1:
    """Top-1 accuracy; the ensemble's prediction is the mean of its members' probabilities."""

    @staticmethod
    def score(predictions: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
        """The share of samples whose most probable class is their label."""
        return float(np.mean(predictions.argmax(axis=1) == labels))

    @staticmethod
    def combine(members: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        """The mean of the members' probabilities, sample by sample."""
        total = np.zeros(members[0].shape, dtype=np.float64)
        for predictions in members:
            total += predictions
        return total / len(members)
