"""The rate falls to zero along half a cosine wave."""

import math

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def share_of_peak(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to zero along half a cosine wave."""
    return (1 - math.cos(math.pi * progress.share_left)) / 2
