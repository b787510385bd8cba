"""The mean of the members' own qualities on held-out samples."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.collect.statistics import mean_interval, summary
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"
NEEDS = "evaluations"


def compute(measured: Measured) -> Metric:
    """The mean of the members' own qualities on held-out samples."""
    qualities = np.array([q for member in measured.finished if (q := member.quality()) is not None])
    if not len(qualities):
        return unavailable(UNIT, BETTER, SYNTHETIC if measured.is_synthetic else NO_MEMBER)
    return Metric(
        value=float(qualities.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=mean_interval(qualities, *getattr(measured.quality, "RANGE", ())),
        n=len(qualities),
        samples_ref=measured.samples_ref,
        detail=summary(qualities),
    )
