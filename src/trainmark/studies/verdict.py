"""What can be told of points: which is best, and whether one is better than another, within rounds."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from trainmark.spec.units import counted
from trainmark.studies.outcomes import FEWEST_FOR_VERDICT, PointOutcomes, Summary

CANNOT_TELL = "cannot tell"


class Best(NamedTuple):
    """The point with the largest median, against its rival: one that may be as good, else the second."""

    point: PointOutcomes
    rival: PointOutcomes
    times: Summary | None  # over the rival's, within rounds; None if no round has both, or the rival's is zero
    more: Summary | None  # than the rival's, within rounds

    @property
    def is_clear(self) -> bool:
        """Whether it is better than every other by more than the noise."""
        return self.more is not None and self.more.is_told(0) and self.more.value > 0

    @property
    def lead(self) -> str:
        """`1.12 (1.08 to 1.15) times`, or by how much more than nothing."""
        if self.times is not None:
            return f"{between(self.times)} times"
        return f"{between(self.more)} more than" if self.more else "no round in common with"


def find_best(points: Iterable[PointOutcomes], metric: str) -> Best | None:
    """Returns the best point by a metric of which more is better; None if fewer than two points have it."""
    found = [(summary.value, point) for point in points if (summary := point.summary(metric))]
    if len(found) < 2:
        return None
    first, *others = (point for _, point in sorted(found, key=lambda pair: -pair[0]))
    compared = [Best(first, each, first.ratio(each, metric), first.difference(each, metric)) for each in others]
    return next((each for each in compared if not each.is_clear), compared[0])


def verdict(
    points: Iterable[PointOutcomes], metric: str, name: Callable[[PointOutcomes], str], what: str, question: str = ""
) -> str | None:
    """`fastest: a, 1.2 (1.1 to 1.3) times that of b`; inside the noise or of too few rounds, that it cannot be told.

    None if there is nothing to choose from.
    """
    best = find_best(points, metric)
    if best is None:
        return None
    if not best.is_clear:
        asked = question or f"which is {what}"
        return f"{CANNOT_TELL} {asked}: {name(best.point)} has {best.lead} that of {name(best.rival)}"
    return f"{what}: {name(best.point)}, {best.lead} that of {name(best.rival)}"


def judged(found: Summary, level: float, above: str, below: str) -> str:
    """`faster`, `slower` or `cannot tell`: on which side of the level the rounds are, by more than the noise."""
    if not found.is_told(level):
        return CANNOT_TELL
    return above if found.value > level else below


def between(found: Summary, style: str = ".3g") -> str:
    """`1.12 (1.08 to 1.15)`; what forbids a verdict stands beside: `1.12 (single run)`, `1.12 (1.1 to 1.2, n = 2)`."""
    notes = [f"{found.low:{style}} to {found.high:{style}}"] if found.n > 1 else ["single run"]
    notes += [f"n = {found.n}"] if 1 < found.n < FEWEST_FOR_VERDICT else []
    if found.busy:
        notes.append(f"{found.busy} of {counted(found.n, 'round')} on busy cores" if found.n > 1 else "busy cores")
    return f"{found.value:{style}} ({', '.join(notes)})"
