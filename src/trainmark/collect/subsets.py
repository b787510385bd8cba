"""Quality of smaller ensembles, formed by subsets of a run's members without training again."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.compute import Counted
from trainmark.collect.measured import Measured, Member
from trainmark.collect.metrics.quality import out_of_bag_predictions, why_no_predictions

MAX_SUBSETS = 50  # per size; more are sampled

Choice = tuple[int, ...]


class SubsetQuality(NamedTuple):
    """Quality of the ensemble of some members: held out, out of bag, and how often two of them disagree."""

    members: Choice
    quality: float
    out_of_bag: float | str  # a reason, if there is none
    disagreement: float | str


def qualities_of_subsets(measured: Measured, seed: int) -> dict[int, list[SubsetQuality]] | str:
    """Returns the qualities of subsets by their size, from one member to all; or why there are none."""
    usable = with_predictions(measured)
    if isinstance(usable, str):
        return usable
    apart, count = disagreements(usable), len(usable.members)
    return {
        size: [_quality(usable, choice, apart) for choice in choose_subsets(count, size, seed)]
        for size in range(1, count + 1)
    }


def with_predictions(measured: Measured) -> Measured | str:
    """Returns the run with the finished members whose predictions can be read, each loaded once; or why none can."""
    counted = Counted(measured, "predictions")
    if reason := counted.reason or why_no_predictions(counted.view):
        return reason
    finished = counted.view.finished
    kept = tuple(replace(member, load_predictions=cache(member.load_predictions)) for member in finished)
    return replace(measured, members=kept)


def choose_subsets(count: int, size: int, seed: int, most: int = MAX_SUBSETS) -> list[Choice]:
    """Returns all subsets of this size, or a sample of `most` different ones."""
    if comb(count, size) <= most:
        return list(combinations(range(count), size))
    rng = np.random.default_rng([seed, count, size])
    found: dict[Choice, None] = {}
    while len(found) < most:
        found[tuple(sorted(rng.choice(count, size, replace=False).tolist()))] = None
    return list(found)


def disagreements(measured: Measured) -> NDArray[np.float64] | str:
    """Returns, for each pair of members, the share of held-out samples with different top-1 predictions."""
    task = getattr(measured.quality, "task", "classification")
    if task != "classification":
        return f"not applicable: {task} has no top-1 prediction per sample"
    labels = [_top1(member) for member in measured.finished]
    return np.array([[np.mean(one != other) for other in labels] for one in labels], np.float64)


def _top1(member: Member) -> NDArray[np.integer]:
    classes: NDArray[np.integer] = member.load_predictions()["eval_predictions"].argmax(axis=1)
    return classes


def _quality(measured: Measured, choice: Choice, apart: NDArray[np.float64] | str) -> SubsetQuality:
    subset = replace(measured, members=tuple(measured.members[number] for number in choice))
    found = out_of_bag_predictions(subset)
    return SubsetQuality(
        members=tuple(member.job.member for member in subset.members),
        quality=measured.quality.score(*subset.ensemble),
        out_of_bag=found if isinstance(found, str) else measured.quality.score(*found),
        disagreement=apart if isinstance(apart, str) else _mean_of_pairs(apart, choice),
    )


def _mean_of_pairs(apart: NDArray[np.float64], choice: Choice) -> float | str:
    pairs = [apart[pair] for pair in combinations(choice, 2)]
    return float(np.mean(pairs)) if pairs else "not applicable: one member"
