"""How an epoch of a member's bootstrap is shuffled and shared by its workers: pure functions.

The bootstrap holds D draws. Each epoch shuffles all D anew and cuts them into global batches of P × B; the remainder
of D / (P × B) is left out, a different one each epoch. Of each global batch rank r takes the r-th run of B draws. So P
workers with batch B see the same global batches as one worker with batch P × B, and no draw is used twice.
"""

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.errors import PlanError
from trainmark.spec.seeds import Purpose, stream

Order = NDArray[np.int64]


def epoch_order(counts: NDArray[np.uint8], seed: int, member: int, epoch: int) -> Order:
    """All draws of a member in the order of one epoch; the same on every rank."""
    draws = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    stream(seed, member, Purpose.SHUFFLE, epoch).shuffle(draws)
    return draws


def steps_per_epoch(num_draws: int, workers: int, batch_size: int) -> int:
    """Whole global batches in an epoch."""
    steps = num_draws // (workers * batch_size)
    if steps == 0:
        raise PlanError(
            f"{workers} workers × batch size {batch_size} = {workers * batch_size} samples a step, but the member's "
            f"bootstrap has {num_draws}. Lower --set train.batch_size or --workers, or use more data."
        )
    return steps


def rank_batches(order: Order, rank: int, workers: int, batch_size: int) -> Order:
    """The draws of one rank: a row of `batch_size` per step."""
    steps = steps_per_epoch(len(order), workers, batch_size)
    used = order[: steps * workers * batch_size]
    return used.reshape(steps, workers, batch_size)[:, rank]
