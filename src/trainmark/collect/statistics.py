"""Confidence intervals from raw samples, and detection of the steady state."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.result import Metric

Samples = NDArray[np.float64]
Interval = tuple[float, float]


def median_interval(samples: Samples) -> Interval | None:
    """95 % interval of the median by order statistics, distribution-free; None below six samples."""
    return quantile_interval(samples, 0.5)


def quantile_interval(samples: Samples, share: float) -> Interval | None:
    """95 % interval of the quantile below which a share of samples lies; None for too few samples."""
    from scipy.special import bdtr  # scipy.stats takes a second to load

    n = len(samples)
    # [x_(k), x_(n+1-l)] covers with 1 − P(Bin(n, share) < k) − P(Bin(n, 1 − share) < l). The least n with 95 % is 6
    # for the median, and 368 for the 99th percentile: 0.99^368 < 0.025.
    k, m = (bisect_left(range(n + 1), 0.025, key=lambda k: bdtr(k, n, tail)) for tail in (share, 1 - share))
    if k < 1 or m < 1:
        return None
    ordered = np.sort(samples)
    return float(ordered[k - 1]), float(ordered[n - m])


def within(interval: Interval | None, least: float = -math.inf, most: float = math.inf) -> Interval | None:
    """Clips the interval to the bounds of the quantity."""
    if interval is None:
        return None
    low, high = (min(max(bound, least), most) for bound in interval)
    return low, high


def mean_interval(samples: Samples, least: float = -math.inf, most: float = math.inf) -> Interval | None:
    """95 % interval of the mean by Student's t, clipped to the bounds; None below two samples."""
    from scipy.special import stdtrit

    n = len(samples)
    if n < 2:
        return None
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(samples, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(samples))
    return within((mean - half, mean + half), least, most)


def rate_interval(rates: Samples) -> Interval | None:
    """95 % interval of the rate of equal amounts of consecutive work, by the mean of their times.

    None if the times vary so much that the rate is unbounded.
    """
    times = mean_interval(1 / rates)
    return None if times is None or times[0] <= 0 else (1 / times[1], 1 / times[0])


def ratio_interval(amounts: Samples, per: Samples) -> Interval | None:
    """95 % interval of Σ amounts / Σ per, by the jackknife over unequal parts; None below two parts."""
    from scipy.special import stdtrit

    n = len(amounts)
    if n < 2:
        return None
    ratio = float(amounts.sum() / per.sum())
    without = (amounts.sum() - amounts) / (per.sum() - per)  # each part left out in turn
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(n - 1, 0.975)) * error
    return within((ratio - half, ratio + half), 0.0)


def batches_of_steps(samples: Samples, runs: int) -> list[Samples]:
    """Splits samples into equal batches: their spread includes the correlation of consecutive samples."""
    return np.array_split(samples, min(runs, len(samples)))


def pooled_rates(amounts: Sequence[Samples], durations: Sequence[Samples], runs: int) -> Samples:
    """Returns, per batch of consecutive steps, all members' work over their time; both of each step of each member."""
    runs = min([runs, *(len(of_member) for of_member in durations)])

    def per_batch(members: Sequence[Samples]) -> Samples:
        sums = [[float(part.sum()) for part in batches_of_steps(each, runs)] for each in members]
        return np.array([sum(of_batch) for of_batch in zip(*sums, strict=True)])

    return per_batch(amounts) / per_batch(durations)


def product_interval(value: float, *factors: tuple[Metric, float]) -> Interval | None:
    """95 % interval of a product of powers of independent metrics: relative errors add in quadrature.

    For a negative power the ends of the factor's interval swap.
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
    """Returns the total length of the union of intervals."""
    total, end = 0.0, -math.inf
    for start, stop in sorted(intervals):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


def summary(samples: Samples) -> dict[str, Any]:
    """Returns the spread of raw samples for a metric's detail."""
    return {"min": float(samples.min()), "max": float(samples.max()), "mean": float(samples.mean())}


GROUP = 5  # steps are grouped by five and judged by the median: one late step is no warm-up
FEWEST_STEPS = 1 + 4 * GROUP  # at least four groups after the first step
ROUNDING = 1e-9
DRIFT_LIMIT = 0.10  # between the halves of the steady part


class SteadyState(NamedTuple):
    """The number of warm-up steps, and whether the rest is steady."""

    warmup_steps: int
    settled: bool


def find_steady_state(step_s: Samples) -> SteadyState:
    """Finds the warm-up steps to leave out: at least one, which includes set-up, at most half.

    By MSER-5, the truncation that makes the rest's standard error smallest (White 1997).
    """
    num_groups = (len(step_s) - 1) // GROUP
    if len(step_s) < FEWEST_STEPS:
        return SteadyState(min(1, len(step_s) - 1), settled=False)
    groups = np.median(step_s[1 : 1 + num_groups * GROUP].reshape(num_groups, GROUP), axis=1)
    # Of cuts equal within rounding the first is taken.
    least = (ROUNDING * float(np.median(groups))) ** 2
    errors = [max(least, float(np.var(groups[cut:]))) / (num_groups - cut) for cut in range(num_groups // 2 + 1)]
    cut = int(np.argmin(errors))
    rest = groups[cut:]
    first, second = np.median(rest[: len(rest) // 2]), np.median(rest[len(rest) // 2 :])
    drift = abs(second - first) / first
    return SteadyState(1 + cut * GROUP, settled=cut < num_groups // 2 and bool(drift <= DRIFT_LIMIT))
