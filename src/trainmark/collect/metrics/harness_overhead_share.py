"""The share of training time that trainmark itself spent recording."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The share of training time that trainmark itself spent recording; `make bench` compares with a bare loop."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    epochs = [epoch for member in measured.finished for epoch in member.epochs]
    return Metric(
        value=sum(epoch.harness_s for epoch in epochs) / sum(epoch.epoch_s for epoch in epochs),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(epochs),
        samples_ref=measured.samples_ref,
    )
