"""The quality of the ensemble's prediction on held-out samples."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.collect.statistics import within
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"
NEEDS = "predictions"


def compute(measured: Measured) -> Metric:
    """The quality of the ensemble's prediction on held-out samples."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    if measured.is_synthetic:
        return unavailable(UNIT, BETTER, SYNTHETIC)
    combined, labels = measured.ensemble
    return Metric(
        value=measured.quality.score(combined, labels),
        ci95=within(measured.quality.interval(combined, labels), *getattr(measured.quality, "RANGE", ())),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(labels),
        detail={"members": len(measured.finished), "of_members": measured.plan.members},
    )
