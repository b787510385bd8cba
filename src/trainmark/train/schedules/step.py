"""The rate falls by decay_factor every decay_epochs, counted from the first epoch."""

import math

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def share_of_peak(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls by decay_factor every decay_epochs, counted from the first epoch."""
    # 0.3 // 0.1 is 2 in floating point: a hair is added, so that whole periods count as whole.
    return float(settings.decay_factor ** math.floor(progress.epochs / settings.decay_epochs + 1e-9))
