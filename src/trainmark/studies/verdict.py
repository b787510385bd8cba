"""Which point is best, and whether that can be told: the best against the others, within rounds."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from trainmark.studies.outcomes import PointOutcomes, Summary


class Best(NamedTuple):
    """The point with the largest median, against its rival: one that may be as good, else the second."""

    point: PointOutcomes
    rival: PointOutcomes
    times: Summary | None  # over the rival's, within rounds; None if no round has both, or the rival's is zero
    more: Summary | None  # than the rival's, within rounds

    @property
    def is_clear(self) -> bool:
        """Whether it is better than every other by more than the noise."""
        return self.more is not None and self.more.low > 0

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
    """`fastest: a, 1.2 (1.1 to 1.3) times that of b`; inside the noise, that it cannot be told.

    None if there is nothing to choose from.
    """
    best = find_best(points, metric)
    if best is None:
        return None
    if not best.is_clear:
        asked = question or f"which is {what}"
        return f"cannot tell {asked}: {name(best.point)} has {best.lead} that of {name(best.rival)}"
    found = f"{what}: {name(best.point)}, {best.lead} that of {name(best.rival)}"
    return f"{found} in a single run" if best.more and best.more.n == 1 else found


def between(found: Summary) -> str:
    """`1.12 (1.08 to 1.15)`; one run has no interval."""
    return f"{found.value:.3g}" + (f" ({found.low:.3g} to {found.high:.3g})" if found.n > 1 else "")
