"""How an epoch of a member's bootstrap is shuffled, augmented and split over its workers: pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.data.batching import Grouping, Shapes, Step, group
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import global_batch, layout_of, samples_per_replica
from trainmark.spec.length import total_steps
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


Rows = Indices | list[Indices]  # of sample indices, a row per step
RowViews = Views | list[Views]
Passes = tuple[tuple[int, float], ...]  # of a step: samples of each pass, and the weight of their mean loss


@dataclass(frozen=True)
class StepLoads:
    """What each step of an epoch computes, on all workers together: samples, and pixels with and without padding."""

    samples: NDArray[np.int64]
    informative_px: NDArray[np.int64]
    total_px: NDArray[np.int64]
    passes: NDArray[np.int64]  # a row per pass: step, samples, height, width

    def part(self, steps: slice) -> "StepLoads":
        """Those of some steps."""
        of_steps = range(*steps.indices(len(self.samples)))
        chosen = (self.passes[:, 0] >= of_steps.start) & (self.passes[:, 0] < of_steps.stop)
        passes = self.passes[chosen] - np.array([of_steps.start, 0, 0, 0])
        return StepLoads(self.samples[steps], self.informative_px[steps], self.total_px[steps], passes)


@dataclass(frozen=True)
class ReplicaEpoch:
    """A row of sample indices and of views per step; images of unlike shape also have passes and loads."""

    rows: Rows
    views: RowViews | None
    passes: Sequence[Passes] | None = None
    loads: StepLoads | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def num_samples(self, steps: int, batch: int) -> int:
        """The samples of all workers in the first steps; `batch` is the global batch of like samples."""
        return steps * batch if self.loads is None else int(self.loads.samples[:steps].sum())

    def part(self, steps: slice) -> "ReplicaEpoch":
        """Some steps of the epoch."""
        views = None if self.views is None else self.views[steps]
        if self.passes is None or self.loads is None:
            return ReplicaEpoch(self.rows[steps], views)
        return ReplicaEpoch(self.rows[steps], views, self.passes[steps], self.loads.part(steps))


def replica_epoch(
    config: RunConfig, counts: NDArray[np.uint8], shapes: Shapes | None, member: int, epoch: int, replica: int
) -> ReplicaEpoch:
    """What one replica of a member trains in an epoch; `shapes` are those of all samples if they differ."""
    train, workers = config.train, config.ensemble.workers
    order = epoch_order(counts, config.seed, member, epoch)
    views = epoch_views(train.augmentation, len(order), config.seed, member, epoch)
    if shapes is None:
        seen = None if views is None else replica_batches(views, replica, train, workers)
        return ReplicaEpoch(replica_batches(order, replica, train, workers), seen)
    steps = grouped(config, shapes[order], member, epoch)
    shares = [_share(step, replica) for step in steps]
    chosen = [np.concatenate(passes) for passes, _ in shares]
    return ReplicaEpoch(
        rows=[order[positions] for positions in chosen],
        views=None if views is None else [views[positions] for positions in chosen],
        passes=[tuple(zip(map(len, passes), weights, strict=True)) for passes, weights in shares],
        loads=_loads(steps, shapes[order]),
    )


def grouped(config: RunConfig, shapes: Shapes, member: int, epoch: int) -> list[Step]:
    """The steps of an epoch by the chosen batching; `shapes` are those of its draws in shuffled order."""
    train = config.train
    mean_px = int(np.prod(shapes, axis=1).mean())
    wanted = Grouping(
        shapes=shapes,
        batch_size=train.batch_size,
        passes=train.accumulation,
        replicas=layout_of(train, config.ensemble.workers).replicas,
        window=train.batching_window,
        budget=train.batch_pixels or train.batch_size * mean_px,
        random=generator_for(config.seed, member, RandomStream.BATCHING, epoch),
    )
    return group(train.batching, wanted)


def _share(step: Step, replica: int) -> tuple[list[Indices], list[float]]:
    """A replica's passes, and weights of their mean losses such that the mean over replicas is that of all samples.

    A replica with fewer passes than another trains one image with weight 0 in each that it lacks: every pass may
    exchange something, such as sharded weights, in which all replicas must take part.
    """
    own, samples = step[replica], sum(len(each) for passes in step for each in passes)
    lacking = max(map(len, step)) - len(own)
    idle = next(each for passes in step for each in passes)[:1]
    return [*own, *[idle] * lacking], [*(len(step) * len(each) / samples for each in own), *[0.0] * lacking]


def _loads(steps: list[Step], shapes: Shapes) -> StepLoads:
    passes = np.array(
        [
            (number, len(each), *shapes[each].max(axis=0))
            for number, step in enumerate(steps)
            for replica in step
            for each in replica
        ],
        np.int64,
    ).reshape(-1, 4)
    samples, total = np.zeros((2, len(steps)), np.int64)
    np.add.at(samples, passes[:, 0], passes[:, 1])
    np.add.at(total, passes[:, 0], passes[:, 1:].prod(axis=1))
    pixels = shapes.prod(axis=1)
    informative = [sum(int(pixels[each].sum()) for replica in step for each in replica) for step in steps]
    return StepLoads(samples, np.array(informative, np.int64), total, passes)


def steps_of_member(config: RunConfig, counts: NDArray[np.uint8], shapes: Shapes | None, member: int) -> int:
    """The steps of an epoch, the same in all epochs of a member."""
    if shapes is None:
        return steps_per_epoch(int(counts.sum()), config.train, config.ensemble.workers)
    order = epoch_order(counts, config.seed, member, 0)
    return len(grouped(config, shapes[order], member, 0))


def largest_pass_px(config: RunConfig, counts: NDArray[np.uint8], shapes: Shapes | None, member: int) -> int | None:
    """Pixels of the largest pass of a member's first epoch, padding included, as far as it is trained.

    None if all samples are alike.
    """
    if shapes is None:
        return None
    of_draws = shapes[epoch_order(counts, config.seed, member, 0)]
    steps = grouped(config, of_draws, member, 0)
    trained = steps[: total_steps(config.train, len(steps))]
    return max(len(each) * int(of_draws[each].max(axis=0).prod()) for step in trained for own in step for each in own)
