"""The share of training time by which communication among workers lengthened the steps."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import no_exchange
from trainmark.collect.statistics import mean_interval
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The share of training time by which communication among workers lengthened the steps."""
    if reason := no_exchange(measured):
        return unavailable(UNIT, BETTER, reason)
    epochs = [stop for member in measured.finished for stop in member.of_all_ranks("epoch_stop")]
    unknown = [stop for stop in epochs if stop.get("waited_s") is None]
    if unknown:
        reason = unknown[0].get("waited_reason", "waiting cannot be separated from computing")
        return unavailable(UNIT, BETTER, reason)
    shares = np.array([stop["waited_s"] / stop["epoch_s"] for stop in epochs])
    return Metric(
        value=float(shares.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=mean_interval(shares, least=0.0, most=1.0),
        n=len(shares),
        samples_ref=measured.samples_ref,
        detail={"least": float(shares.min()), "most": float(shares.max())},
    )
