"""The rate falls by decay_factor every decay_epochs, counted from the first epoch."""

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def share_of_peak(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls by decay_factor every decay_epochs, counted from the first epoch."""
    return float(settings.decay_factor ** (progress.epochs // settings.decay_epochs))
