"""The quality of the ensemble's prediction on held-out samples."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The quality of the ensemble's prediction on held-out samples."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    if measured.is_synthetic:
        return unavailable(UNIT, BETTER, SYNTHETIC)
    combined, labels = measured.ensemble
    return Metric(
        value=measured.quality.score(combined, labels),
        ci95=measured.quality.interval(combined, labels),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(labels),
        detail={"members": len(measured.finished), "of_members": measured.plan.members},
    )
