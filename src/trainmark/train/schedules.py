"""The learning-rate schedules: pure functions of training progress, as fractions of the peak rate."""

import math
from typing import NamedTuple

from trainmark.spec.config import TrainConfig


class Progress(NamedTuple):
    """The current step and the length of training, in steps; warm-up may end within a step."""

    step: int
    steps_per_epoch: int
    total_steps: int
    warmup_steps: float = 0.0

    @property
    def epochs(self) -> float:
        """Epochs before this step, including warm-up."""
        return self.step / self.steps_per_epoch

    @property
    def epochs_after_warmup(self) -> float:
        """Epochs between the end of warm-up and this step."""
        return (self.step - self.warmup_steps) / self.steps_per_epoch

    @property
    def share_left(self) -> float:
        """The remaining fraction of the training after warm-up, including this step: from 1 down, never 0."""
        return (self.total_steps - self.step) / max(1.0, self.total_steps - self.warmup_steps)


def constant(progress: Progress, settings: TrainConfig) -> float:
    """The rate stays at its peak."""
    return 1.0


def step(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls by decay_factor every decay_epochs, counted from the first epoch."""
    # 0.3 // 0.1 is 2 in floating point; 1e-9 makes whole periods count as whole.
    return float(settings.decay_factor ** math.floor(progress.epochs / settings.decay_epochs + 1e-9))


def polynomial(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to zero as the remaining fraction of training to the power decay_power."""
    return float(progress.share_left**settings.decay_power)


def cosine(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to zero along half a cosine wave."""
    return (1 - math.cos(math.pi * progress.share_left)) / 2


def cyclic(progress: Progress, settings: TrainConfig) -> float:
    """The rate falls to cycle_floor of its peak and rises again, linearly, every cycle_epochs."""
    phase = (progress.epochs_after_warmup / settings.cycle_epochs) % 1.0
    height = abs(2 * phase - 1)  # 1 at both ends of a cycle, 0 in its middle
    return settings.cycle_floor + (1 - settings.cycle_floor) * height
