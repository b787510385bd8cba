"""Where warm-up ends: MSER-5, the truncation that makes the rest's standard error smallest (White 1997)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 5  # steps are judged in groups of five, by their median: one late step is no warm-up
FEWEST_STEPS = 1 + 4 * GROUP  # four groups after the first step are the fewest that can be judged
ROUNDING = 1e-9
DRIFT_LIMIT = 0.10  # halves of the steady part may differ by this much


class SteadyState(NamedTuple):
    """How many steps are warm-up, and whether the rest is steady."""

    warmup_steps: int
    settled: bool


def find_steady_state(step_s: NDArray[np.float64]) -> SteadyState:
    """The steps to leave out at the start: at least one (it pays for set-up), at most half."""
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
