"""The ensemble's quality on training samples, each predicted only by members that have not seen it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER, SYNTHETIC
from trainmark.collect.statistics import within
from trainmark.spec.registries import DATASETS
from trainmark.spec.result import Better, Metric, unavailable

UNIT = ""
BETTER: Better = "higher"
NEEDS = "predictions"


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
    names = ("oob_indices", "oob_predictions", "oob_labels")
    parts = [[arrays[name] for name in names] for arrays in (member.load_predictions() for member in measured.finished)]
    indices, predictions, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(indices):
        return unavailable(UNIT, BETTER, "every sample was drawn by every member")
    combined, rows = combine_by_sample(measured.quality.combine, indices, predictions)
    return Metric(
        value=measured.quality.score(combined, labels[rows]),
        ci95=within(measured.quality.interval(combined, labels[rows]), *getattr(measured.quality, "RANGE", ())),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(rows),
        detail={"samples_predicted": len(rows)} | _note(measured),
    )


def _note(measured: Measured) -> dict[str, str]:
    """What makes the figure optimistic, where the dataset says that its samples resemble their neighbours."""
    alike = getattr(DATASETS.load(measured.config.dataset), "neighbours_are_alike", False)
    return {"note": "optimistic: samples resemble their neighbours, which members have seen"} if alike else {}


def combine_by_sample(
    combine: Callable[[Sequence[NDArray[Any]]], NDArray[Any]], indices: NDArray[np.int64], predictions: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """For each sample, by rising index: all predictions of it, combined, and the first row that has its index."""
    order = np.argsort(indices, kind="stable")
    _, starts, counts = np.unique(indices[order], return_index=True, return_counts=True)
    combined, places = [], []
    # An ensemble's members are equal: samples with the same number of predictions are combined together.
    for count in np.unique(counts):
        having = np.flatnonzero(counts == count)
        combined.append(combine([predictions[order[starts[having] + nth]] for nth in range(count)]))
        places.append(having)
    by_index = np.argsort(np.concatenate(places))
    return np.concatenate(combined)[by_index], order[starts]
