"""Quality of members and of the ensemble, on held-out samples and out of bag."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.measured import NO_MEMBER, Measured
from trainmark.collect.statistics import Interval, mean_interval, summary, within
from trainmark.spec.metrics import Column, Figure, MetricRow
from trainmark.spec.registries import DATASETS, QUALITIES


def _range_of(quality: Any) -> tuple[float, ...]:
    """Returns the bounds of a quality."""
    bounds: tuple[float, ...] = getattr(quality, "RANGE", ())
    return bounds


def _interval(quality: Any, combined: NDArray[Any], labels: NDArray[Any]) -> Interval | None:
    return within(quality.interval(combined, labels), *_range_of(quality))


def _qualities(measured: Measured) -> dict[int, float] | str:
    """Returns the quality of each finished member."""
    found = {member.job.member: q for member in measured.finished if (q := member.quality()) is not None}
    return found or measured.why_no_quality or NO_MEMBER


def _member_mean(measured: Measured) -> Figure | str:
    found = _qualities(measured)
    return found if isinstance(found, str) else _mean_of([*found.values()], measured.quality)


def _mean_of(scores: list[float], quality: Any) -> Figure:
    """Returns the mean of the members' scores by this quality."""
    scored = np.array(scores)
    return Figure(float(scored.mean()), mean_interval(scored, *_range_of(quality)), len(scored), summary(scored))


MEMBER_MEAN = MetricRow(
    "quality_member_mean",
    "",
    "higher",
    "quality, mean member",
    description="The mean quality of the members on held-out samples.",
    compute=_member_mean,
    needs="evaluations",
)


def _member_best(measured: Measured) -> Figure | str:
    found = _qualities(measured)
    if isinstance(found, str):
        return found
    best = max(found, key=lambda member: found[member])
    return Figure(found[best], n=len(found), detail={"member": best})


MEMBER_BEST = MetricRow(
    "quality_member_best",
    "",
    "higher",
    "quality, best member",
    description="The quality of the best single member on held-out samples.",
    compute=_member_best,
    needs="evaluations",
    keeps_samples=False,
)


def why_no_predictions(measured: Measured) -> str | None:
    """Returns why there are no predictions to score; None if there are."""
    return measured.why_no_quality if measured.finished else NO_MEMBER


def _ensemble(measured: Measured) -> Figure | str:
    return why_no_predictions(measured) or _of_ensemble(measured, measured.quality)


def _of_ensemble(measured: Measured, quality: Any) -> Figure:
    """Scores the ensemble's predictions by this quality."""
    combined, labels = measured.ensemble
    return Figure(
        value=quality.score(combined, labels),
        ci95=_interval(quality, combined, labels),
        n=len(labels),
        detail={"members": len(measured.finished), "of_members": measured.plan.members},
    )


ENSEMBLE = MetricRow(
    "quality_ensemble",
    "",
    "higher",
    "quality, ensemble",
    description="The quality of the ensemble's prediction on held-out samples.",
    compute=_ensemble,
    needs="predictions",
    keeps_samples=False,
    is_headline=True,
    results_column=Column("quality", lambda value: f"{value:.4g}"),
)


def _why_no_companion(measured: Measured, name: str) -> str | None:
    """Returns why the stored predictions cannot be scored by this quality as well; None if they can."""
    if name not in (measured.config.quality, *getattr(measured.quality, "companions", ())):
        return f"not applicable: {name} does not score predictions of {measured.config.quality}"
    if reason := why_no_predictions(measured):
        return reason
    classes = measured.ensemble[0].shape[1]
    fewest = getattr(QUALITIES.load(name), "fewest_classes", 0)
    return f"not applicable: {name} needs {fewest} classes, there are {classes}" if classes < fewest else None


def _companion_ensemble(measured: Measured, name: str) -> Figure | str:
    return _why_no_companion(measured, name) or _of_ensemble(measured, QUALITIES.load(name))


def _companion_member_mean(measured: Measured, name: str) -> Figure | str:
    if reason := _why_no_companion(measured, name):
        return reason
    quality = QUALITIES.load(name)
    predicted = (member.load_predictions() for member in measured.finished)
    return _mean_of([quality.score(each["eval_predictions"], each["eval_labels"]) for each in predicted], quality)


TOP5_MEMBER_MEAN = MetricRow(
    "top5_member_mean",
    "",
    "higher",
    "top-5, mean member",
    description="The mean top-5 accuracy of the members on held-out samples.",
    compute=lambda measured: _companion_member_mean(measured, "top5"),
    needs="predictions",
    keeps_samples=False,
    hide_if_unavailable=True,
)
TOP5_ENSEMBLE = MetricRow(
    "top5_ensemble",
    "",
    "higher",
    "top-5, ensemble",
    description="The top-5 accuracy of the ensemble's prediction on held-out samples.",
    compute=lambda measured: _companion_ensemble(measured, "top5"),
    needs="predictions",
    keeps_samples=False,
    hide_if_unavailable=True,
)


def _out_of_bag(measured: Measured) -> Figure | str:
    found = out_of_bag_predictions(measured)
    if isinstance(found, str):
        return found
    combined, labels = found
    return Figure(
        value=measured.quality.score(combined, labels),
        ci95=_interval(measured.quality, combined, labels),
        n=len(labels),
        detail={"samples_predicted": len(labels)} | _optimism(measured),
    )


def out_of_bag_predictions(measured: Measured) -> tuple[NDArray[Any], NDArray[Any]] | str:
    """Returns the ensemble's predictions of training samples, each by members not trained on it, and the labels."""
    if reason := why_no_predictions(measured):
        return reason
    if not measured.config.evaluate.out_of_bag:
        return "not measured: evaluate.out_of_bag is false"
    if measured.config.ensemble.bootstrap == "none":
        return "without a bootstrap every member is trained on every sample"
    names = ("oob_indices", "oob_predictions", "oob_labels")
    parts = [[arrays[name] for name in names] for arrays in (member.load_predictions() for member in measured.finished)]
    indices, predictions, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(indices):
        return "every sample was drawn by every member"
    combined, rows = combine_by_sample(measured.quality.combine, indices, predictions)
    return combined, labels[rows]


def _optimism(measured: Measured) -> dict[str, str]:
    """Returns a note if the dataset's neighbouring samples are similar, which makes out-of-bag quality optimistic."""
    alike = getattr(DATASETS.load(measured.config.dataset), "neighbours_are_alike", False)
    return {"note": "optimistic: members were trained on similar neighbouring samples"} if alike else {}


def combine_by_sample(
    combine: Callable[[Sequence[NDArray[Any]]], NDArray[Any]], indices: NDArray[np.int64], predictions: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Combines all predictions of each sample, by ascending index; also returns its first row."""
    order = np.argsort(indices, kind="stable")
    _, starts, counts = np.unique(indices[order], return_index=True, return_counts=True)
    combined, places = [], []
    # Samples with the same number of predictions are combined in one call.
    for count in np.unique(counts):
        having = np.flatnonzero(counts == count)
        combined.append(combine([predictions[order[starts[having] + nth]] for nth in range(count)]))
        places.append(having)
    by_index = np.argsort(np.concatenate(places))
    return np.concatenate(combined)[by_index], order[starts]


OUT_OF_BAG = MetricRow(
    "quality_out_of_bag",
    "",
    "higher",
    "quality, out of bag",
    description="The ensemble's quality on training samples, each predicted only by members not trained on it.",
    compute=_out_of_bag,
    needs="predictions",
    keeps_samples=False,
)
