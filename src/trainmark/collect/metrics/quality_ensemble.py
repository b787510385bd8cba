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
    loaded = [member.load_predictions() for member in measured.finished]
    combined = measured.quality.combine([arrays["eval_predictions"] for arrays in loaded])
    labels = loaded[0]["eval_labels"]
    score = measured.quality.score(combined, labels)
    return Metric(
        value=score,
        ci95=measured.quality.interval(score, len(labels)),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(labels),
        detail={"members": len(loaded), "of_members": measured.plan.members},
    )
