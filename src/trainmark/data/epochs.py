"""How an epoch of a member's bootstrap is shuffled and shared by its workers: pure functions.

The bootstrap holds D draws. Each epoch shuffles all D anew and cuts them into global batches of R × A × B (R copies of
the model, A accumulated passes of B samples); the remainder of D is left out, a different one each epoch. Of each
global batch copy r takes the r-th run of A × B draws. So R copies with batch B see the same global batches as one with
batch R × B, and no draw is used twice.
"""

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import global_batch, layout_of, samples_per_replica
from trainmark.spec.seeds import Purpose, stream
from trainmark.spec.units import counted

Order = NDArray[np.int64]


def epoch_order(counts: NDArray[np.uint8], seed: int, member: int, epoch: int) -> Order:
    """All draws of a member in the order of one epoch; the same on every rank."""
    draws = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    stream(seed, member, Purpose.SHUFFLE, epoch).shuffle(draws)
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


def replica_batches(order: Order, replica: int, train: TrainConfig, workers: int) -> Order:
    """One replica's share of `order` (of draws, or of what there is one of per draw): a row per step."""
    steps, samples = steps_per_epoch(len(order), train, workers), samples_per_replica(train)
    replicas = layout_of(train, workers).replicas
    used = order[: steps * replicas * samples]
    return used.reshape(steps, replicas, samples, *order.shape[1:])[:, replica]
