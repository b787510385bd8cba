"""The share of training time in which a pipeline's workers had nothing to compute."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.events import EpochStop
from trainmark.spec.layout import SPLITTING
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The share of training time in which a pipeline's workers had nothing to compute."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    if measured.config.train.parallel not in SPLITTING:
        return unavailable(UNIT, BETTER, f"train.parallel={measured.config.train.parallel} has no pipeline")
    epochs = [stop for member in measured.finished for stop in member.of_all_ranks(EpochStop)]
    found = [stop.bubble_share for stop in epochs if stop.bubble_share is not None]
    if len(found) < len(epochs):
        return unavailable(UNIT, BETTER, "waiting cannot be separated from computing")
    shares = np.array(found)
    return Metric(
        value=float(shares.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(shares),
        samples_ref=measured.samples_ref,
        detail={"ideal": epochs[0].ideal_bubble_share},
    )
