"""The share of training time by which communication among workers lengthened the steps."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import no_exchange
from trainmark.collect.statistics import mean_interval
from trainmark.spec.events import EpochStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The share of training time by which communication among workers lengthened the steps."""
    if reason := no_exchange(measured):
        return unavailable(UNIT, BETTER, reason)
    epochs = [stop for member in measured.finished for stop in member.of_all_ranks(EpochStop)]
    found = [stop.waited_s / stop.epoch_s for stop in epochs if stop.waited_s is not None]
    if len(found) < len(epochs):
        reason = next(stop.waited_reason for stop in epochs if stop.waited_s is None)
        return unavailable(UNIT, BETTER, reason or "waiting cannot be separated from computing")
    shares = np.array(found)
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
