"""The median time of one epoch of training (T_epoch of Eq. 6), without evaluation."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.collect.statistics import median_interval, summary
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "s"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The median time of one epoch of training (T_epoch of Eq. 6), without evaluation, over all members."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    samples = np.array([epoch.epoch_s for member in measured.finished for epoch in member.epochs])
    return Metric(
        value=float(np.median(samples)),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=median_interval(samples),
        n=len(samples),
        samples_ref=measured.samples_ref,
        detail=summary(samples),
    )
