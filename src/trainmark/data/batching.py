"""Batching strategies: which images of unlike shape share a batch; pure functions of shapes and a random generator."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.registries import BATCHINGS

Positions = NDArray[np.int64]  # in the order of the epoch's draws
Shapes = NDArray[np.int64]  # a row of height and width per draw
Step = list[list[Positions]]  # the passes of each replica; a replica that has none is idle

MANY = 4  # steps per bucket of `pixels`, at least, so that its batches differ from epoch to epoch


class Grouping(NamedTuple):
    """What is batched: the shapes of an epoch's draws in shuffled order, and how much a step takes of them."""

    shapes: Shapes
    batch_size: int  # samples per pass; replicas × passes × batch_size are a step
    passes: int  # per replica and step
    replicas: int
    window: int  # samples among which those of a batch are chosen
    budget: int  # pixels per pass, padding included
    random: np.random.Generator

    @property
    def step_size(self) -> int:
        """The samples of a step."""
        return self.replicas * self.passes * self.batch_size


Strategy = Callable[[Grouping], list[Step]]


def group(strategy: str, wanted: Grouping) -> list[Step]:
    """The steps of an epoch, in which every draw occurs once; their number depends on the shapes, not on the order."""
    steps: list[Step] = BATCHINGS.load(strategy)(wanted)
    return steps


def random(wanted: Grouping) -> list[Step]:
    """As shuffled, whatever the shapes (HRVS): images of all shapes share a batch."""
    return _in_windows(wanted, lambda shapes: np.arange(len(shapes)), is_shuffled=True)


def aspect(wanted: Grouping) -> list[Step]:
    """Batches of similar aspect ratio: each window is sorted by height over width."""
    return _in_windows(wanted, lambda shapes: np.argsort(_logs(shapes) @ (1, -1), kind="stable"))


def size(wanted: Grouping) -> list[Step]:
    """Batches of similar height and width: each window is cut into strips by height, each sorted by width."""
    return _in_windows(wanted, lambda shapes: _nested(wanted, shapes, _tiled))


def nearest(wanted: Grouping) -> list[Step]:
    """Batches of nearest shapes: each window is halved by height or width, whichever varies more, down to a batch."""
    return _in_windows(wanted, lambda shapes: _nested(wanted, _logs(shapes), _halved))


def singles(wanted: Grouping) -> list[Step]:
    """One image per pass, without any padding; the gradients of a batch are accumulated."""
    steps = random(wanted)
    return [[[image for each in passes for image in np.split(each, len(each))] for passes in step] for step in steps]


def pixels(wanted: Grouping) -> list[Step]:
    """As many images per pass as a budget of pixels allows; an image above the budget is alone."""
    steps: list[Step] = []
    for bucket in _buckets(wanted, _logs(wanted.shapes), np.arange(len(wanted.shapes))):
        members = wanted.random.permutation(bucket)
        per_step = _capacity(wanted, bucket) * wanted.replicas * wanted.passes
        steps.extend(_dealt(wanted, members[at : at + per_step]) for at in range(0, len(members), per_step))
    return [steps[number] for number in wanted.random.permutation(len(steps))]


def _in_windows(wanted: Grouping, arrange: Callable[[Shapes], Positions], *, is_shuffled: bool = False) -> list[Step]:
    """Steps of consecutive samples of each arranged window, in random order; the last draws are a smaller step."""
    per_step, total = wanted.step_size, len(wanted.shapes)
    whole = total // per_step * per_step
    window = max(1, wanted.window // per_step) * per_step
    steps: list[Step] = []
    for start in range(0, whole, window):
        arranged = start + arrange(wanted.shapes[start : min(start + window, whole)])
        steps.extend(_dealt(wanted, arranged[at : at + per_step]) for at in range(0, len(arranged), per_step))
    if whole < total:
        steps.append(_dealt(wanted, whole + arrange(wanted.shapes[whole:])))
    return steps if is_shuffled else [steps[number] for number in wanted.random.permutation(len(steps))]


def _dealt(wanted: Grouping, positions: Positions) -> Step:
    """Neighbouring batches go to replicas in the same pass, which wait for each other; shares differ by one at most."""
    parts = np.array_split(positions, wanted.replicas * wanted.passes)
    return [[part for part in parts[replica :: wanted.replicas] if len(part)] for replica in range(wanted.replicas)]


def _logs(shapes: Shapes) -> NDArray[np.float64]:
    return np.log(shapes)


Arrange = Callable[[NDArray[Any], Positions, int], Positions]


def _nested(wanted: Grouping, shapes: NDArray[Any], arrange: Arrange) -> Positions:
    """Arranged into steps, then each step into batches: the samples of a step do not depend on the workers."""
    parts = [np.arange(len(shapes))]
    for unit in dict.fromkeys((wanted.step_size, wanted.batch_size)):
        arranged = np.concatenate([arrange(shapes, part, unit) for part in parts])
        parts = np.split(arranged, range(unit, len(arranged), unit))
    return np.concatenate(parts)


def _tiled(shapes: NDArray[Any], positions: Positions, unit: int) -> Positions:
    """Sort-tile-recursive packing: strips of about as many units by height, each sorted by width."""
    units = -(-len(positions) // unit)
    strip = -(-units // max(1, round(units**0.5))) * unit
    by_height = positions[np.lexsort((shapes[positions, 1], shapes[positions, 0]))]
    strips = np.split(by_height, range(strip, len(by_height), strip))
    return np.concatenate([each[np.lexsort((shapes[each, 0], shapes[each, 1]))] for each in strips])


def _halved(shapes: NDArray[Any], positions: Positions, unit: int) -> Positions:
    """Halved at a multiple of `unit` near the middle, until `unit` positions or fewer are left."""
    if len(positions) <= unit:
        return positions
    halves = _split(shapes, positions, max(1, round(len(positions) / 2 / unit)) * unit)
    return np.concatenate([_halved(shapes, half, unit) for half in halves])


def _split(shapes: NDArray[Any], positions: Positions, count: int) -> tuple[Positions, Positions]:
    """The `count` smallest by height or width, whichever varies more, and the rest; ties by the other one."""
    chosen = shapes[positions]
    axis = int(np.argmax(np.ptp(chosen, axis=0)))
    order = np.lexsort((chosen[:, 1 - axis], chosen[:, axis]))
    return positions[order[:count]], positions[order[count:]]


def _capacity(wanted: Grouping, bucket: Positions) -> int:
    """How many images of the bucket a pass may have: all as high as the highest and as wide as the widest."""
    height, width = wanted.shapes[bucket].max(axis=0).tolist()
    return max(1, wanted.budget // int(height * width))


def _buckets(wanted: Grouping, logs: NDArray[np.float64], positions: Positions) -> Iterator[Positions]:
    """Halves until a bucket has but few steps; membership depends on the shapes alone, not on the epoch's order."""
    per_step = _capacity(wanted, positions) * wanted.replicas * wanted.passes
    if len(positions) < 2 * MANY * per_step or not np.ptp(wanted.shapes[positions], axis=0).any():
        yield positions
        return
    for half in _split(logs, positions, len(positions) // 2):
        yield from _buckets(wanted, logs, half)
