"""The rate falls to cycle_floor of its peak and rises again, in straight lines, every cycle_epochs."""

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def share_of_peak(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to cycle_floor of its peak and rises again, in straight lines, every cycle_epochs."""
    phase = (progress.epochs_after_warmup / settings.cycle_epochs) % 1.0
    height = abs(2 * phase - 1)  # 1 at both ends of a cycle, 0 in its middle
    return settings.cycle_floor + (1 - settings.cycle_floor) * height
