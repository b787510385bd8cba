"""Top-1 accuracy; the ensemble's prediction is the mean of its members' probabilities."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def share_interval(share: float, num_samples: int) -> tuple[float, float]:
    """The 95 % interval of a share of samples (Wilson 1927)."""
    z2 = 1.959964**2
    middle = (share + z2 / (2 * num_samples)) / (1 + z2 / num_samples)
    spread = share * (1 - share) / num_samples + z2 / (4 * num_samples**2)
    half = math.sqrt(z2 * spread) / (1 + z2 / num_samples)
    # With no or all samples correct, one bound is exactly 0 or 1, except for rounding.
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))


class Top1:
    """Top-1 accuracy; the ensemble's prediction is the mean of its members' probabilities."""

    RANGE = (0.0, 1.0)
    task = "classification"
    companions = ("top5",)

    @staticmethod
    def score(predictions: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
        """The share of samples whose most probable class is their label."""
        return float(np.mean(predictions.argmax(axis=1) == labels))

    @staticmethod
    def interval(predictions: NDArray[np.floating], labels: NDArray[np.integer]) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927)."""
        return share_interval(Top1.score(predictions, labels), len(labels))

    @staticmethod
    def combine(members: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        """The mean of the members' probabilities, sample by sample."""
        total = np.zeros(members[0].shape, dtype=np.float64)
        for predictions in members:
            total += predictions
        return total / len(members)
