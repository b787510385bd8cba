"""Intervals for what was measured, from its raw samples, and where warm-up ends."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.result import Metric

Samples = NDArray[np.float64]
Interval = tuple[float, float]


def median_interval(samples: Samples) -> Interval | None:
    """The 95 % interval of the median by order statistics: no distribution is assumed. Needs six samples."""
    from scipy.special import bdtr  # scipy.stats would take a second to load

    n = len(samples)
    # The interval [x_(k), x_(n+1-k)] covers with probability 1 − 2·P(Bin(n, ½) < k); n = 6 is the least with 95 %.
    k = next(k for k in range(n + 1) if bdtr(k, n, 0.5) >= 0.025)
    if k < 1:
        return None
    ordered = np.sort(samples)
    return float(ordered[k - 1]), float(ordered[n - k])


def within(interval: Interval | None, least: float = -math.inf, most: float = math.inf) -> Interval | None:
    """The interval, cut exactly at the bounds beyond which there is no value."""
    if interval is None:
        return None
    low, high = (min(max(bound, least), most) for bound in interval)
    return low, high


def mean_interval(samples: Samples, least: float = -math.inf, most: float = math.inf) -> Interval | None:
    """The 95 % interval of the mean by Student's t, cut where no mean can lie. Needs two samples."""
    from scipy.special import stdtrit

    n = len(samples)
    if n < 2:
        return None
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(samples, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(samples))
    return within((mean - half, mean + half), least, most)


def rate_interval(rates: Samples) -> Interval | None:
    """The 95 % interval of the rate of equal amounts of work done one after another, by the mean of their times.

    None where the times vary so much that the rate could be anything.
    """
    times = mean_interval(1 / rates)
    return None if times is None or times[0] <= 0 else (1 / times[1], 1 / times[0])


def runs_of(samples: Samples, runs: int) -> list[Samples]:
    """The samples in equal runs of neighbours: the spread of runs holds what single, correlated samples hide."""
    return np.array_split(samples, min(runs, len(samples)))


def pooled_rates(members: Sequence[Samples], amount_each: float, runs: int) -> Samples:
    """For each run of neighbouring steps, the amount that all members did in it over the time that they took."""
    split = [runs_of(durations, min([runs, *(len(each) for each in members)])) for durations in members]
    return np.array(
        [
            amount_each * sum(len(part) for part in parts) / sum(part.sum() for part in parts)
            for parts in zip(*split, strict=True)
        ]
    )


def product_interval(value: float, *factors: tuple[Metric, float]) -> Interval | None:
    """The 95 % interval of a product of independent metrics, each to a power: relative errors add in quadrature.

    A factor with a negative power is divided by: what is above it lowers the product.
    """
    below = above = 0.0
    for metric, power in factors:
        if metric.value is None or metric.ci95 is None or metric.ci95[0] <= 0:
            return None
        ends = metric.ci95 if power >= 0 else metric.ci95[::-1]
        below += (power * math.log(metric.value / ends[0])) ** 2
        above += (power * math.log(ends[1] / metric.value)) ** 2
    return value * math.exp(-math.sqrt(below)), value * math.exp(math.sqrt(above))


def union_length(intervals: list[tuple[float, float]]) -> float:
    """The time covered by at least one interval."""
    total, end = 0.0, -math.inf
    for start, stop in sorted(intervals):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


def summary(samples: Samples) -> dict[str, Any]:
    """Spread of raw samples for a metric's detail."""
    return {"min": float(samples.min()), "max": float(samples.max()), "mean": float(samples.mean())}


GROUP = 5  # steps are judged in groups of five, by their median: one late step is no warm-up
FEWEST_STEPS = 1 + 4 * GROUP  # four groups after the first step are the fewest that can be judged
ROUNDING = 1e-9
DRIFT_LIMIT = 0.10  # halves of the steady part may differ by this much


class SteadyState(NamedTuple):
    """How many steps are warm-up, and whether the rest is steady."""

    warmup_steps: int
    settled: bool


def find_steady_state(step_s: Samples) -> SteadyState:
    """The steps to leave out at the start: at least one (it pays for set-up), at most half.

    By MSER-5, the truncation that makes the rest's standard error smallest (White 1997).
    """
    num_groups = (len(step_s) - 1) // GROUP
    if len(step_s) < FEWEST_STEPS:
        return SteadyState(min(1, len(step_s) - 1), settled=False)
    groups = np.median(step_s[1 : 1 + num_groups * GROUP].reshape(num_groups, GROUP), axis=1)
    # Of cuts that differ by rounding alone the first is taken.
    least = (ROUNDING * float(np.median(groups))) ** 2
    errors = [max(least, float(np.var(groups[cut:]))) / (num_groups - cut) for cut in range(num_groups // 2 + 1)]
    cut = int(np.argmin(errors))
    rest = groups[cut:]
    first, second = np.median(rest[: len(rest) // 2]), np.median(rest[len(rest) // 2 :])
    drift = abs(second - first) / first
    return SteadyState(1 + cut * GROUP, settled=cut < num_groups // 2 and bool(drift <= DRIFT_LIMIT))
