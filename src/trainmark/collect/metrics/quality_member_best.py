"""The quality of the best single member on held-out samples."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"
NEEDS = "evaluations"


def compute(measured: Measured) -> Metric:
    """The quality of the best single member on held-out samples."""
    qualities = {member.job.member: q for member in measured.finished if (q := member.quality()) is not None}
    if not qualities:
        return unavailable(UNIT, BETTER, SYNTHETIC if measured.is_synthetic else NO_MEMBER)
    best = max(qualities, key=lambda member: qualities[member])
    return Metric(
        value=qualities[best],
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(qualities),
        detail={"member": best},
    )
