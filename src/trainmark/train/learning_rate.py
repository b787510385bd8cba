"""The learning rate of a step: scaled with the batch, warmed up, shaped by a schedule, collapsed at the end."""

import math
from collections.abc import Callable

from trainmark.spec.config import TrainConfig
from trainmark.train.schedules import Progress

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
