"""The ensemble's quality on training samples, each predicted only by members that have not seen it."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The ensemble's quality on training samples, each predicted only by members that have not seen it."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    if measured.is_synthetic:
        return unavailable(UNIT, BETTER, SYNTHETIC)
    if not measured.config.evaluate.out_of_bag:
        return unavailable(UNIT, BETTER, "not measured: evaluate.out_of_bag is false")
    if measured.config.ensemble.bootstrap == "none":
        return unavailable(UNIT, BETTER, "without a bootstrap every member sees every sample")
    predictions_of: dict[int, list[np.ndarray]] = {}
    labels: dict[int, int] = {}
    for member in measured.finished:
        arrays = member.load_predictions()
        for index, prediction, label in zip(
            arrays["oob_indices"].tolist(),
            arrays["oob_predictions"],
            arrays["oob_labels"].tolist(),
            strict=True,
        ):
            predictions_of.setdefault(index, []).append(prediction)
            labels[index] = label
    if not predictions_of:
        return unavailable(UNIT, BETTER, "every sample was drawn by every member")
    combined = np.array([measured.quality.combine(predictions) for predictions in predictions_of.values()])
    score = measured.quality.score(combined, np.array(list(labels.values())))
    return Metric(
        value=score,
        ci95=measured.quality.interval(score, len(labels)),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(labels),
        detail={"samples_predicted": len(labels)},
    )
