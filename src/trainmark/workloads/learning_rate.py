"""The learning rate of a step: schedules, scaling with the batch, warm-up, and the final collapse."""

import math
from collections.abc import Callable
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
    """The rate falls by decay_factor every decay_epochs, or at decay_at, counted from the first epoch."""
    # 0.3 // 0.1 is 2 in floating point; 1e-9 makes whole periods count as whole.
    if settings.decay_at is None:
        return float(settings.decay_factor ** math.floor(progress.epochs / settings.decay_epochs + 1e-9))
    return float(settings.decay_factor ** sum(epoch <= progress.epochs + 1e-9 for epoch in settings.decay_at))


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


Schedule = Callable[[Progress, TrainConfig], float]

COLLAPSE_POWER = 2.0
COLLAPSE_WEIGHT_DECAY = 2.0


def learning_rate(progress: Progress, global_batch: int, settings: TrainConfig, schedule: Schedule) -> float:
    """The learning rate of this step; a pure function, the same on every worker."""
    peak = scaled_rate(global_batch, settings)
    if progress.step < progress.warmup_steps:
        # "constant" stays at the rate of the reference batch, "gradual" rises linearly.
        gradual = peak * min(1.0, (progress.step + 1) / progress.warmup_steps)
        return gradual if settings.warmup == "gradual" else min(peak, settings.learning_rate)
    if not is_collapsed(progress, settings):
        return peak * schedule(progress, settings)
    first = first_collapsed_step(progress, settings)
    left = (progress.total_steps - progress.step) / (progress.total_steps - first)
    return float(peak * schedule(progress._replace(step=first), settings) * left**COLLAPSE_POWER)


def scaled_rate(global_batch: int, settings: TrainConfig) -> float:
    """The peak rate for this global batch: that of the reference batch times the ratio, its square root, or 1."""
    ratio = global_batch / settings.reference_batch_size
    factor = {"linear": ratio, "square-root": math.sqrt(ratio), "none": 1.0}[settings.rate_scaling]
    return settings.learning_rate * factor


def first_collapsed_step(progress: Progress, settings: TrainConfig) -> int:
    """The first step of the final collapse; never in warm-up."""
    steps = math.ceil(settings.collapse_epochs * progress.steps_per_epoch)
    return max(progress.total_steps - steps, math.ceil(progress.warmup_steps))


def is_collapsed(progress: Progress, settings: TrainConfig) -> bool:
    """Whether this step is in the final collapse: augmentation off, weight decay doubled, quadratic rate decay."""
    return settings.collapse_epochs > 0 and progress.step >= first_collapsed_step(progress, settings)


def weight_decay_factor(progress: Progress, settings: TrainConfig) -> float:
    """The factor on the recipe's weight decay in this step."""
    return COLLAPSE_WEIGHT_DECAY if is_collapsed(progress, settings) else 1.0
