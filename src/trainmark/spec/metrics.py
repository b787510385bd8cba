"""MetricRow: what a metric is, what it needs and builds on, how it is computed and where it is shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Better, Metric, unavailable

# What a member must have left to count for a metric.
Needs = Literal[
    "steps", "epochs", "finished members", "evaluations", "predictions", "epochs and predictions", "the end"
]
SAMPLES_REF = "events/"  # where raw samples are, in the run's folder


class Figure(NamedTuple):
    """What a metric's computation gives where there is something to measure."""

    value: float
    ci95: tuple[float, float] | None = None
    n: int = 0
    detail: dict[str, Any] | None = None
    convention: str | None = None
    exponent: float | None = None


class Column(NamedTuple):
    """A column in the table of many Results: its heading, and how a value is shown in it."""

    heading: str
    show: Callable[[float], str]


def plain_note(metric: Metric) -> str:
    """What a metric's detail notes, or the convention that it counts by."""
    if metric.detail and "note" in metric.detail:
        return str(metric.detail["note"])
    return f"{metric.convention} convention" if metric.convention else ""


@dataclass(frozen=True)
class MetricRow:
    """One metric. `compute` takes what was measured and the metrics it builds on, and gives a figure or a reason."""

    name: str
    unit: str
    better: Better
    label: str
    description: str  # in one sentence
    compute: Callable[..., Figure | str]
    needs: Needs = "steps"
    builds_on: tuple[str, ...] = ()
    status: Literal["measured", "derived"] = "measured"
    keeps_samples: bool = True  # in the events
    # Where it is shown, beside the page of a report, which has them all.
    only_if_there: bool = False  # left out of the table of a run that has no such thing
    is_headline: bool = False
    note: Callable[[Metric], str] = plain_note
    of_each_member: bool = False
    member_heading: str | None = None  # in tables of members
    results_column: Column | None = None

    def as_metric(self, found: Figure | str) -> Metric:
        """The figure with its unit and direction; a reason makes it unavailable."""
        if isinstance(found, str):
            return unavailable(self.unit, self.better, found)
        return Metric(
            unit=self.unit,
            better=self.better,
            status=self.status,
            samples_ref=SAMPLES_REF if self.keeps_samples else None,
            **found._asdict(),
        )


def metric_rows() -> dict[str, MetricRow]:
    """The rows of all metrics in the order in which they are shown; those of plug-ins that cannot be loaded are not."""
    rows: dict[str, MetricRow] = {}
    for name in METRICS.as_written():
        try:
            rows[name] = METRICS.load(name)
        except UnknownNameError:
            continue
    return rows
