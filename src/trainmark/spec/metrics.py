"""MetricRow: definition, inputs, computation and presentation of a metric."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Better, Metric, unavailable

# What a member must have recorded to be included in a metric.
Needs = Literal[
    "steps", "epochs", "finished members", "evaluations", "predictions", "epochs and predictions", "the end"
]
SAMPLES_REF = "events/"  # raw samples, relative to the run folder


class Figure(NamedTuple):
    """The result of a metric's computation."""

    value: float
    ci95: tuple[float, float] | None = None
    n: int = 0
    detail: dict[str, Any] | None = None
    convention: str | None = None
    exponent: float | None = None


class Column(NamedTuple):
    """A column in the table of Results: heading and value format."""

    heading: str
    show: Callable[[float], str]


def plain_note(metric: Metric) -> str:
    """Returns the note in a metric's detail, or its FLOP convention."""
    if metric.detail and "note" in metric.detail:
        return str(metric.detail["note"])
    return f"{metric.convention} convention" if metric.convention else ""


def always(metric: Metric) -> bool:
    """Most metrics are shown whatever they are."""
    return True


@dataclass(frozen=True)
class MetricRow:
    """One metric. `compute` takes the measurements and the metrics it builds on; returns a figure or a reason."""

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
    # Presentation; the report page always shows all metrics.
    hide_if_unavailable: bool = False  # in the table of a run
    is_shown: Callable[[Metric], bool] = always  # in the table of a run, if it has a value
    is_headline: bool = False
    note: Callable[[Metric], str] = plain_note
    per_member: bool = False
    member_heading: str | None = None  # in tables of members
    results_column: Column | None = None

    def as_metric(self, found: Figure | str) -> Metric:
        """Returns the figure as a Metric; a reason makes it unavailable."""
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
    """Returns all metrics in display order, without plug-ins that fail to load."""
    rows: dict[str, MetricRow] = {}
    for name in METRICS.in_listed_order():
        try:
            rows[name] = METRICS.load(name)
        except UnknownNameError:
            continue
    return rows
