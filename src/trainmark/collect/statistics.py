"""Intervals for what was measured, from its raw samples."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
Interval = tuple[float, float]


def median_interval(samples: Samples) -> Interval | None:
    """The 95 % interval of the median by order statistics: no distribution is assumed. Needs six samples."""
    from scipy.stats import binom

    n = len(samples)
    # The interval [x_(k), x_(n+1-k)] covers with probability 1 − 2·P(Bin(n, ½) < k); n = 6 is the least with 95 %.
    k = int(binom.ppf(0.025, n, 0.5))
    if k < 1:
        return None
    ordered = np.sort(samples)
    return float(ordered[k - 1]), float(ordered[n - k])


def mean_interval(samples: Samples) -> Interval | None:
    """The 95 % interval of the mean by Student's t. Needs two samples."""
    from scipy.stats import t

    n = len(samples)
    if n < 2:
        return None
    half = float(t.ppf(0.975, n - 1)) * float(np.std(samples, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(samples))
    return mean - half, mean + half


def batch_rates(durations: Samples, amount_each: float, batches: int) -> Samples:
    """Rates over equal runs of neighbouring steps: their spread holds what single, correlated steps would hide."""
    parts = np.array_split(durations, min(batches, len(durations)))
    return np.array([amount_each * len(part) / part.sum() for part in parts])


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
