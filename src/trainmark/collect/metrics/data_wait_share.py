"""The share of training time spent waiting for the next batch."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "lower"


def compute(measured: Measured) -> Metric:
    """The share of training time spent waiting for the next batch, in steady state."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    if any(rank.accelerator is not None for member in measured.finished for rank in member.job.ranks):
        return unavailable(UNIT, BETTER, "on an accelerator the host runs ahead, so its waiting is not the device's")
    waits = [member.wait_s[member.steady.warmup_steps :] for member in measured.finished]
    steps = [member.step_s[member.steady.warmup_steps :] for member in measured.finished]
    return Metric(
        value=float(sum(w.sum() for w in waits) / sum(s.sum() for s in steps)),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=sum(len(s) for s in steps),
        samples_ref=measured.samples_ref,
    )
