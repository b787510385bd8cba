"""Columns of studies on reaching the target quality: a run that misses it counts as one that never gets there."""

import math
from collections.abc import Iterable

import numpy as np

from trainmark.collect.metrics.target import DID_NOT_REACH
from trainmark.spec.metrics import metric_rows
from trainmark.spec.units import counted
from trainmark.studies.outcomes import DIVERGED, Outcome, Outcomes, PointOutcomes, Summary, summarise
from trainmark.studies.tables import Measure

EPOCHS = "epochs_to_target"


def to_target(name: str) -> Measure:
    """The column of a cost until the target: `epochs_to_target`, `time_to_target_s` or `flop_to_target`."""
    row = metric_rows()[name]
    return Measure(name, row.unit, row.label, lambda point: median_to_target(point, name))


def median_to_target(point: PointOutcomes, name: str) -> Summary | None:
    """Returns the median over all runs, with the range of those that reached the target; None if half of them missed.

    Leaving out the runs that missed would make the hardest points look easy. Those of which it is not known count
    neither way.
    """
    return _median_of_all(point.values(name), [math.inf for run in point.runs if has_missed(run, name)])


def quality_of_all(name: str) -> Measure:
    """The column of a quality: that of a run that diverged is below all others, a gap if half of them did."""
    row = metric_rows()[name]
    return Measure(name, row.unit, row.label, lambda point: median_quality(point, name))


def median_quality(point: PointOutcomes, name: str) -> Summary | None:
    """Returns the median over all runs, with the range of those that did not diverge; None if half of them did."""
    return _median_of_all(point.values(name), [-math.inf for run in point.runs if run.answer == DIVERGED])


def _median_of_all(values: Iterable[float | None], worst: list[float]) -> Summary | None:
    """Returns the median of the values and the worst ones, with the range of the values; None if it is no number."""
    known = [value for value in values if value is not None]
    found = summarise(known)
    if found is None or not worst:
        return found
    median = float(np.median([*known, *worst]))
    return found._replace(value=median, low=min(known), high=max(known)) if math.isfinite(median) else None


def has_missed(run: Outcome, name: str = EPOCHS) -> bool:
    """Whether the run is known to have missed the target, as one that diverged; a restarted one may have reached it."""
    if run.answer == DIVERGED:
        return True
    return run.result is not None and run.value(name) is None and DID_NOT_REACH in (run.why_not(name) or "")


def rate_to_target(run: Outcome) -> float | None:
    """Targets per epoch: 0 for a run that missed it; None if that is not known."""
    epochs = run.value(EPOCHS)
    return 1 / epochs if epochs else 0.0 if has_missed(run) else None


def runs_at_target() -> Measure:
    """The column with the number of runs that reached the target; the note says why others did not."""
    return Measure("reached_target", "runs", "reached target", _num_reached, why=_why_missed)


def _num_reached(point: PointOutcomes) -> float | None:
    return float(sum(value is not None for value in point.values(EPOCHS))) if _ended(point) else None


def _ended(point: PointOutcomes) -> list[Outcome]:
    """The runs that trained to their end: they have a Result, or diverged."""
    return [run for run in point.runs if run.result is not None or run.answer == DIVERGED]


def _why_missed(point: PointOutcomes) -> str | None:
    without = [run for run in _ended(point) if run.value(EPOCHS) is None]
    of_all = f"of {counted(len(_ended(point)), 'run')}"
    notes = []
    for verb, runs in (
        ("missed by", [run for run in without if has_missed(run)]),
        ("unknown for", [run for run in without if not has_missed(run)]),
    ):
        if runs:
            why = next((run.why_not(EPOCHS) for run in runs if run.result is not None), DIVERGED)
            notes.append(f"target {verb} {len(runs)} {of_all}: {why}")
    return "; ".join(notes) or None


def target_quality(outcomes: Outcomes) -> float | None:
    """Returns the target that the runs had; None without runs."""
    return outcomes.results[0].config.evaluate.target_quality if outcomes.results else None
