"""Outcomes of a study with written-out metrics."""

from collections.abc import Mapping, Sequence

from tests.unit.test_report_page import written_config, written_result
from trainmark.spec.config import Setting
from trainmark.spec.metrics import metric_rows
from trainmark.spec.result import Metric, Result
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point

Figures = Mapping[str, float | str]  # a string: why the metric is unavailable
DIVERGED = "failed: rank 0 failed: The loss became nan at step 5. Start a new run with a lower rate."
MISSED = "1 of 1 member did not reach the target 0.8; best 0.7"


def result(figures: Figures, details: Mapping[str, dict[str, object]] | None = None, members: int = 1) -> Result:
    """A complete Result with these metrics."""
    rows = metric_rows()
    metrics = {
        name: Metric(
            value=None if isinstance(value, str) else value,
            unit=rows[name].unit,
            better=rows[name].better,
            status="unavailable" if isinstance(value, str) else "measured",
            reason=value if isinstance(value, str) else None,
            detail=(details or {}).get(name),
        )
        for name, value in figures.items()
    }
    return written_result(members, config=written_config("train.precision=fp32"), metrics=metrics)


def point(at: Mapping[str, Setting], rounds: Sequence[Figures | str], refused: str | None = None) -> PointOutcomes:
    """A point whose rounds have these metrics, or this reason for having none."""
    runs = [
        Outcome(number, f"r{number}", reason=each)
        if isinstance(each, str)
        else Outcome(number, f"r{number}", result(each))
        for number, each in enumerate(rounds, 1)
    ]
    return PointOutcomes(Point(at=dict(at)), tuple(runs), refused)


def outcomes(*points: PointOutcomes, repeats: int | None = None) -> Outcomes:
    """The outcomes of a study."""
    return Outcomes(tuple(points), repeats or max((len(each.runs) for each in points), default=1))
