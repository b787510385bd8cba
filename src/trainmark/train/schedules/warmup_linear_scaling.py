"""AI500's default: the rate grows with the global batch, rises gradually at first, then decays by a power."""

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress


def learning_rate(progress: Progress, settings: TrainConfig) -> float:
    """AI500's default: the rate grows with the global batch, rises gradually at first, then decays by a power."""
    peak = settings.learning_rate * progress.global_batch_size / settings.reference_batch_size
    warmup_steps = settings.warmup_epochs * progress.steps_per_epoch
    if progress.step < warmup_steps:
        return peak * min(1.0, (progress.step + 1) / warmup_steps)
    left = progress.total_steps - progress.step
    return peak * float((left / max(1.0, progress.total_steps - warmup_steps)) ** settings.decay_power)
