"""The largest batch that fits into memory, by doubling and bisection: which one to try next, and what was found."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from math import inf
from typing import NamedTuple

from trainmark.spec.errors import ConfigError
from trainmark.studies.outcomes import OUT_OF_MEMORY, PointOutcomes

PEAK = "peak_memory_bytes"
GIB = 2**30
RESOLUTION = 16  # the search ends with a batch that fits and one at most 1/16 larger that does not
GROWTH = 16  # × the largest batch of the axis: the search goes no further
SPARE_TRIES = 3  # where no batch may be tried that is expected to exceed the limit, steps are shorter
OVERSHOOT = 9 / 8  # of the limit: no batch is tried that is expected to need more


class LargestBatch(NamedTuple):
    """What a search found: the largest batch that fitted (0: none), the smallest that did not, and why it ended."""

    batch: int
    too_large: int | None
    is_found: bool
    note: str = ""


def fits(point: PointOutcomes, limit_bytes: float | None) -> bool | None:
    """Whether every run of the point stayed within the limit; None if it failed for another reason.

    Without a limit, the memory of the accelerator is one.
    """
    if OUT_OF_MEMORY in (point.refused or "") or any(run.answer == OUT_OF_MEMORY for run in point.runs):
        return False
    peaks = [peak for peak in point.values(PEAK) if peak is not None]
    if limit_bytes is not None and any(peak > limit_bytes for peak in peaks):
        return False
    return True if peaks and len(peaks) == len(point.runs) else None


def next_batch(tried: Mapping[int, bool], most: int) -> int | None:
    """Returns the batch to try next; None once the largest is known, or fits at `most`.

    It is twice the largest that fitted until one does not, then halfway between the two.
    """
    fitted, too_large = _ends(tried)
    if too_large is None:
        return min(2 * fitted, most) if 0 < fitted < most else None
    is_known = too_large - fitted <= max(1, fitted // RESOLUTION)
    return None if is_known else (fitted + too_large) // 2


def _ends(tried: Mapping[int, bool]) -> tuple[int, int | None]:
    """Returns the largest batch that fitted, below the smallest that did not; 0 and None if there is none."""
    too_large = min((batch for batch, did_fit in tried.items() if not did_fit), default=None)
    fitted = [batch for batch, did_fit in tried.items() if did_fit and (too_large is None or batch < too_large)]
    return max(fitted, default=0), too_large


def within_reach(batch: int, peaks: Mapping[int, float], limit_bytes: float | None) -> int:
    """Returns the batch, or a smaller one that is expected to need at most 9/8 of the limit.

    Memory grows linearly with the batch; the line goes through the two largest batches that fitted, or from zero
    through a single one, which overestimates.
    """
    if limit_bytes is None or not peaks:
        return batch
    (before, low), (last, high) = sorted([(0, 0.0), *peaks.items()])[-2:]
    bytes_per_sample = (high - low) / (last - before)
    if bytes_per_sample <= 0:
        return batch
    return min(batch, max(last + 1, int(last + (OVERSHOOT * limit_bytes - high) / bytes_per_sample)))


def most_tries(batches: Iterable[int]) -> int:
    """Returns the most batches that a search tries beside those of the axis."""
    ordered = sorted(batches)
    # Halvings until two are 1/16 of the smaller, or one, apart: between neighbours of the axis, and below the smallest.
    gaps = [(upper - lower) / max(1, lower / RESOLUTION) for lower, upper in pairwise([0, *ordered])]
    beyond = math.log2(GROWTH) + math.log2(RESOLUTION)  # doublings, then halvings
    return math.ceil(max(beyond, *(math.log2(gap) for gap in gaps if gap > 0))) + SPARE_TRIES


class Search:
    """The batches tried so far under one limit, all else being equal."""

    def __init__(
        self, points: Sequence[PointOutcomes], limit_bytes: float | None, axis: Sequence[int], *, most_tries: int
    ) -> None:
        self._limit_bytes = limit_bytes
        self._most = GROWTH * max(axis)
        self._is_over = len({int(point.at["batch"]) for point in points} - set(axis)) >= most_tries
        self._points = {int(point.at["batch"]): point for point in points}
        verdicts = {batch: fits(point, limit_bytes) for batch, point in self._points.items()}
        self._tried = {batch: verdict for batch, verdict in verdicts.items() if verdict is not None}

    def next(self) -> int | None:
        """Returns the batch to try next; None if the search is over."""
        batch = next_batch(self._tried, self._most)
        if batch is None or self._failed() or self._is_over:
            return None
        fitted = [b for b, did_fit in self._tried.items() if did_fit]
        peaks = {b: max(peak for peak in self._points[b].values(PEAK) if peak is not None) for b in fitted}
        return within_reach(batch, peaks, self._limit_bytes)

    def _failed(self) -> list[int]:
        """Returns the batches of the range in question that failed for another reason: they leave it open."""
        fitted, too_large = _ends(self._tried)
        untold = [batch for batch in self._points if batch not in self._tried]
        return sorted(batch for batch in untold if fitted < batch and (too_large is None or batch < too_large))

    def found(self) -> LargestBatch:
        """Returns what the search found so far."""
        fitted, too_large = _ends(self._tried)
        if next_batch(self._tried, self._most) is None and too_large is not None:
            return self._widened(fitted, too_large)
        ended = "the search ended before one did not fit"
        note = ended if too_large is None else f"not {too_large}; the search has not ended"
        for batch in self._failed()[:1]:
            note = f"batch {batch}: {self._points[batch].gap or 'some of its runs failed'}"
        return LargestBatch(fitted, too_large, is_found=False, note=note)

    def _widened(self, fitted: int, too_large: int) -> LargestBatch:
        """Returns what was found; where a larger batch needed less memory, by as much as measurements differ."""
        peaks = {b: [peak for peak in point.values(PEAK) if peak is not None] for b, point in self._points.items()}
        ordered = [peaks[batch] for batch in sorted(peaks) if peaks[batch]]
        noise = max((max(a) - min(b) for a, b in combinations(ordered, 2)), default=0.0)
        if noise <= 0 or self._limit_bytes is None:
            return LargestBatch(fitted, too_large, is_found=True)
        limit = self._limit_bytes
        sure = [b for b, did_fit in self._tried.items() if did_fit and b <= fitted and max(peaks[b]) <= limit - noise]
        above = [b for b, did_fit in self._tried.items() if not did_fit and min(peaks[b], default=inf) > limit + noise]
        largest, smallest = max(sure, default=0), min(above, default=None)
        if (largest, smallest) == (fitted, too_large):
            return LargestBatch(fitted, too_large, is_found=True)
        varied = f"peaks vary by {noise / 2**20:.3g} MiB"
        note = varied if smallest is None else f"not {smallest}; {varied}"
        return LargestBatch(largest, smallest, is_found=False, note=note)


def check_limit(limit_gib: float, workers: int, available_bytes: int) -> None:
    """Raises if the search could exhaust the memory of this machine, which would swap or kill processes."""
    needed = limit_gib * OVERSHOOT * workers
    if needed * GIB <= available_bytes:
        return
    most = available_bytes / GIB / OVERSHOOT / workers
    raise ConfigError(
        f"--limit {limit_gib:g}: the search tries batches that need up to {needed:.3g} GiB"
        f"{f' ({workers} workers)' if workers > 1 else ''}, but {available_bytes / GIB:.3g} GiB are available here. "
        f"Choose at most --limit {int(most * 10) / 10:g}."
    )
