"""The median duration of one training step in steady state."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.collect.statistics import median_interval, runs_of, summary
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "s"
BETTER: Better = "lower"
RUNS = 10


def compute(measured: Measured) -> Metric:
    """The median duration of one training step in steady state, over all members."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    steady = [member.step_s[member.steady.warmup_steps :] for member in measured.finished]
    samples = np.concatenate(steady)
    # Neighbouring steps are slow together: the interval is that of runs of steps, not of single ones.
    medians = np.array([np.median(run) for step_s in steady for run in runs_of(step_s, RUNS)])
    return Metric(
        value=float(np.median(samples)),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=median_interval(medians),
        n=len(medians),
        samples_ref=measured.samples_ref,
        detail={**summary(samples), "steps": len(samples)},
    )
