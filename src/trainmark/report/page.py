"""Results as one self-contained HTML page: tables, plots and the full configuration."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainmark.report.drawing import Figure
from trainmark.report.html import render
from trainmark.report.node_series import NodeSeries
from trainmark.report.plots import RankEvents, figure_or_reason, plots_of
from trainmark.report.result_table import interval_of, note_of, scale_of, state_of, training_of
from trainmark.report.utilisation import TITLE, utilisation_plot
from trainmark.spec.event_files import first_of
from trainmark.spec.metrics import metric_rows, plain_note
from trainmark.spec.model_events import ModelReady
from trainmark.spec.plan import describe_slots, plan_figures
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.units import show_value, with_prefix

STATES = {
    "complete": "all members finished",
    "partial": "some members failed; the figures cover the finished ones",
    "failed": "no member finished",
    "unfinished": "members are running, waiting or stopped; the figures are those so far",
}
METRIC_HEADS = ("metric", "value", "95 % interval", "n", "status", "note")

Row = tuple[str, ...]


class OperatorShare(NamedTuple):
    """Cost of one operator in a training step."""

    operator: str
    flop: str
    percent: float


@dataclass(frozen=True)
class RunSection:
    """The section of the page on one run."""

    result: Result
    state: str
    facts: list[Row]
    metrics: list[Row]
    members: list[Row]
    plots: list[Figure]
    operators: list[OperatorShare]
    operators_caption: str
    records: dict[str, list[Row]]


def run_section(result: Result, events: RankEvents, usage: NodeSeries) -> RunSection:
    """Returns the section of a run, from its Result, the events of each member's rank 0 and node utilisation."""
    convention = _convention(result)
    operators, model = _operators(result, events, convention)
    return RunSection(
        result=result,
        state=STATES[result.state],
        facts=_facts(result),
        metrics=list(_metric_rows(result)),
        members=[_member_row(member) for member in result.members],
        plots=[*plots_of(result, events), figure_or_reason(TITLE, lambda: utilisation_plot(result, usage, events))],
        operators=operators,
        operators_caption=f"{model}, {convention} convention: FLOP per sample in one training step.",
        records={
            "Configuration": list(flat_rows(result.config.model_dump(exclude_none=True))),
            "Plan": list(flat_rows(plan_figures(result.plan))),
            "Machine": list(flat_rows(result.machine)),
            "Engine": list(flat_rows(result.engine)),
            "Software": list(flat_rows(result.software)),
            "Provenance": list(flat_rows(result.provenance)),
        },
    )


def report_page(sections: Sequence[RunSection]) -> str:
    """Returns the HTML of a report on these runs; all strings are escaped."""
    member_heads = ("member", "state", "attempts", "epochs", "quality", *_member_columns().values(), "note")
    return render("runs.html.j2", sections=sections, metric_heads=METRIC_HEADS, member_heads=member_heads)


def flat_rows(record: dict[str, Any], prefix: str = "") -> Iterator[Row]:
    """Yields a record as dotted keys and values, as for `--set`: `train.epochs`, `3`."""
    for key, value in record.items():
        if isinstance(value, dict) and value:
            yield from flat_rows(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(result: Result) -> list[Row]:
    machine = result.machine
    accelerators = ", ".join(str(each.get("name")) for each in machine.get("accelerators", []))
    return [
        ("workload", f"{result.workload} ({result.size})"),
        ("started", result.started_at),
        ("machine", f"{machine.get('host')}: {machine.get('cpu')}, {machine.get('cores')} cores"),
        ("accelerators", accelerators or "none"),
        ("scale", scale_of(result)),
        ("slots", describe_slots(result.plan)),
        *([("training", training_of(result))] if result.training else []),
    ]


def _metric_rows(result: Result) -> Iterator[Row]:
    """Yields label, value, interval, n, status and note; registered metrics first."""
    rows = metric_rows()
    listed = [name for name in rows if name in result.metrics]
    for name in [*listed, *(name for name in result.metrics if name not in rows)]:
        metric, row = result.metrics[name], rows.get(name)
        count, note = str(metric.n or ""), note_of(metric, row.note if row else plain_note)
        yield row.label if row else name, _value(metric), interval_of(metric), count, metric.status, note


def _value(metric: Metric | None) -> str:
    return "–" if metric is None or metric.value is None else show_value(metric.value, metric.unit)


def _member_columns() -> dict[str, str]:
    """Returns the metrics with a column in the members table, with their headings."""
    return {name: row.member_heading for name, row in metric_rows().items() if row.member_heading is not None}


def _member_row(member: MemberResult) -> Row:
    return (
        str(member.member),
        state_of(member),
        str(member.attempts),
        str(member.epochs_done),
        "–" if member.quality is None else f"{member.quality:.4f}",
        *(_value(member.metrics.get(name)) for name in _member_columns()),
        member.reason or ("resumed from a checkpoint" if member.restarted else ""),
    )


def _convention(result: Result) -> str:
    flops = result.metrics.get("flops")
    return (flops and flops.convention) or "exact"


def _operators(result: Result, events: RankEvents, convention: str) -> tuple[list[OperatorShare], str]:
    """Returns the model's operators by cost, descending, and its name; empty if none was recorded."""
    flops = result.metrics.get("flops")
    measured = ((flops and flops.detail) or {}).get("operators", {})  # with the measured number of proposals
    for of_rank in events.values():
        if ready := first_of(ModelReady, of_rank):
            counted = ready.conventions.get(convention)
            flop: dict[str, float] = measured.get(convention) or (counted.operators if counted else {})
            by_cost = sorted(flop.items(), key=lambda item: -item[1])
            total = sum(flop.values()) or 1
            shares = [OperatorShare(name, with_prefix(n, "FLOP"), 100 * n / total) for name, n in by_cost]
            return shares, ready.model
    return [], ""
