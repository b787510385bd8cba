"""The rate falls to zero as the power decay_power of the training that is left."""

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def share_of_peak(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to zero as the power decay_power of the training that is left."""
    return float(progress.share_left**settings.decay_power)
