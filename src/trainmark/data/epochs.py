"""How an epoch of a member's bootstrap is shuffled, augmented and split over its workers: pure functions."""

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import global_batch, layout_of, samples_per_replica
from trainmark.spec.seeds import RandomStream, generator_for
from trainmark.spec.units import counted

Indices = NDArray[np.int64]


def epoch_order(counts: NDArray[np.uint8], seed: int, member: int, epoch: int) -> Indices:
    """All draws of a member in the order of one epoch; the same on every rank."""
    draws = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    generator_for(seed, member, RandomStream.SHUFFLE, epoch).shuffle(draws)
    return draws


def steps_per_epoch(num_draws: int, train: TrainConfig, workers: int) -> int:
    """Whole global batches in an epoch."""
    batch = global_batch(train, workers)
    if num_draws < batch:
        copies = layout_of(train, workers).replicas
        passes = f" × {train.accumulation} accumulated" if train.accumulation > 1 else ""
        raise PlanError(
            f"{counted(copies, 'worker')} × batch size {train.batch_size}{passes} = {batch} samples per step, but the "
            f"member's bootstrap has {num_draws}. Lower --set train.batch_size or --workers, or use more data."
        )
    return num_draws // batch


def replica_batches(order: Indices, replica: int, train: TrainConfig, workers: int) -> Indices:
    """One replica's share of `order` (draws, or one value per draw): a row per step."""
    steps, samples = steps_per_epoch(len(order), train, workers), samples_per_replica(train)
    replicas = layout_of(train, workers).replicas
    used = order[: steps * replicas * samples]
    return used.reshape(steps, replicas, samples, *order.shape[1:])[:, replica]


MAX_SHIFT = 4  # pixels; what is shifted out of the frame is cut off, what enters is background

# A row per draw. flip-shift: mirrored (0 or 1), pixels down, pixels right; otherwise a seed. 0: not augmented.
Views = NDArray[np.int64]


def epoch_views(kind: str, num_draws: int, seed: int, member: int, epoch: int) -> Views | None:
    """The augmentation of each draw of an epoch, in epoch order; None without augmentation."""
    if kind == "none":
        return None
    random = generator_for(seed, member, RandomStream.AUGMENT, epoch)
    if kind != "flip-shift":  # the reader draws the augmentation from a seed
        return random.integers(1, 2**62, num_draws)
    views = np.empty((num_draws, 3), np.int64)
    views[:, 0] = random.integers(0, 2, num_draws)
    views[:, 1:] = random.integers(-MAX_SHIFT, MAX_SHIFT + 1, (num_draws, 2))
    return views


def unchanged(views: Views) -> Views:
    """Views without augmentation."""
    return np.zeros_like(views)
