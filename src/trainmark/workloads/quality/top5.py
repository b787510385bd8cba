"""Top-5 accuracy, scored on the predictions of top-1."""

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.top1 import Top1, share_interval


class Top5:
    """Top-5 accuracy; the ensemble's prediction is the mean of its members' probabilities."""

    RANGE = (0.0, 1.0)
    task = "classification"
    fewest_classes = 6  # with fewer, any prediction is right

    @staticmethod
    def score(predictions: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
        """The share of samples whose label is among their five most probable classes."""
        classes = np.arange(predictions.shape[1])
        of_label = np.take_along_axis(predictions, labels[:, None], axis=1)
        # As in argmax, of equal probabilities the first class is ahead; so it is where none is a number.
        is_ahead = (predictions > of_label) | (~(predictions < of_label) & (classes < labels[:, None]))
        return float(np.mean(is_ahead.sum(axis=1) < 5))

    @staticmethod
    def interval(predictions: NDArray[np.floating], labels: NDArray[np.integer]) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson 1927)."""
        return share_interval(Top5.score(predictions, labels), len(labels))

    combine = Top1.combine
