"""How many updates a parameter server's weights were ahead of those that a gradient was computed from."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.collect.statistics import mean_interval
from trainmark.spec.events import EpochStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "steps"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """How many updates a parameter server's weights were ahead of those that a gradient was computed from."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    found = [
        value for member in measured.finished for stop in member.of_all_ranks(EpochStop) for value in stop.staleness
    ]
    if not found:
        mode = measured.config.train.communication
        return unavailable(UNIT, BETTER, f"train.communication={mode} has no server whose weights could be ahead")
    staleness = np.array(found, dtype=np.float64)
    return Metric(
        value=float(staleness.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=mean_interval(staleness, least=0.0),
        n=len(staleness),
        samples_ref=measured.samples_ref,
        detail={"most": int(staleness.max())},
    )
