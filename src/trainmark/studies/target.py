"""Columns of studies on reaching the target quality: a run that misses it counts as one that never gets there."""

import math

import numpy as np

from trainmark.spec.metrics import metric_rows
from trainmark.spec.units import counted
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary, summarise
from trainmark.studies.tables import Measure

EPOCHS = "epochs_to_target"


def to_target(name: str) -> Measure:
    """The column of a cost until the target: `epochs_to_target`, `time_to_target_s` or `flop_to_target`."""
    row = metric_rows()[name]
    return Measure(name, row.unit, row.label, lambda point: median_to_target(point, name))


def median_to_target(point: PointOutcomes, name: str) -> Summary | None:
    """Returns the median over all runs, with the range of those that reached the target; None if half of them missed.

    Leaving out the runs that missed would make the hardest points look easy.
    """
    values = [run.value(name) for run in point.runs if run.result is not None]
    found = summarise(values)
    if found is None or found.n == len(values):
        return found
    median = float(np.median([math.inf if value is None else value for value in values]))
    reached = [value for value in values if value is not None]
    return Summary(median, min(reached), max(reached), found.n, found.spread) if math.isfinite(median) else None


def runs_at_target() -> Measure:
    """The column with the number of runs that reached the target; the note says why others did not."""
    return Measure("reached_target", "runs", "reached target", _num_reached, why=_why_missed)


def _num_reached(point: PointOutcomes) -> float | None:
    return float(sum(value is not None for value in point.values(EPOCHS))) if point.results() else None


def _why_missed(point: PointOutcomes) -> str | None:
    missed = [run.why_not(EPOCHS) for run in point.runs if run.result is not None and run.value(EPOCHS) is None]
    if not missed:
        return None
    return f"target missed by {len(missed)} of {counted(len(point.results()), 'run')}: {missed[0]}"


def target_quality(outcomes: Outcomes) -> float | None:
    """Returns the target that the runs had; None without runs."""
    return outcomes.results[0].config.evaluate.target_quality if outcomes.results else None
