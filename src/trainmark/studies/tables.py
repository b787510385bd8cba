"""Tables and figures of studies: one row per point with intervals, gaps and flags; curves from rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from trainmark.collect.statistics import FEWEST_STEPS
from trainmark.report.bars import Bars, HeatMap
from trainmark.report.drawing import Curve, Figure, Plot
from trainmark.spec.metrics import metric_rows
from trainmark.spec.result import Result
from trainmark.spec.table import Cell, Column, Table
from trainmark.spec.units import counted
from trainmark.studies.outcomes import ANSWERS, Outcomes, PointOutcomes, Summary, busy_runs

SPEED = "throughput_samples_per_s"
POP = ("load_balance", "communication_efficiency", "parallel_efficiency")
NO_BASE = "nothing to compare with"
MAX_GAPS, MAX_FLAGGED = 4, 6  # named in a caption


class Measure(NamedTuple):
    """A column with median and interval."""

    name: str
    unit: str
    label: str
    of: Callable[[PointOutcomes], Summary | float | None]
    why: Callable[[PointOutcomes], str | None] = lambda point: None  # goes into the row's note
    source: str = ""  # the metric that it is derived from; default: the one of its name

    def reason(self, point: PointOutcomes) -> str | None:
        """Returns why the cell is empty: why the metric is, what failed runs found out, or that no base exists."""
        source = self.source or self.name
        if source not in metric_rows():
            return None  # findings say why
        runs = [run for run in point.runs if run.result is not None and run.value(source) is None]
        found = next((run.answer for run in point.runs if run.answer), NO_BASE)
        return next((why for run in runs if (why := run.why_not(source))), found)


def metric(name: str, label: str = "") -> Measure:
    """The column of a metric of the runs."""
    row = metric_rows()[name]
    return Measure(name, row.unit, label or row.label, lambda point: point.summary(name))


def ratio(name: str, of_metric: str, base: Callable[[PointOutcomes], PointOutcomes | None], label: str) -> Measure:
    """The column of a metric over that of each point's base, within rounds."""

    def over_base(point: PointOutcomes) -> Summary | None:
        below = base(point)
        return point.ratio(below, of_metric) if below else None

    return Measure(name, "", label, over_base, source=of_metric)


def difference(name: str, of_metric: str, base: Callable[[PointOutcomes], PointOutcomes | None], label: str) -> Measure:
    """The column of a metric minus that of each point's base, within rounds."""

    def from_base(point: PointOutcomes) -> Summary | None:
        below = base(point)
        return point.difference(below, of_metric) if below else None

    return Measure(name, metric_rows()[of_metric].unit, label, from_base, source=of_metric)


def build_table(
    outcomes: Outcomes,
    measures: Sequence[Measure],
    findings: Iterable[str | None] = (),
    facts: Mapping[str, Any] | None = None,
) -> Table:
    """Returns one row per point: coordinates, measures with intervals, n, spread, POP efficiencies, and a note."""
    measures = [*measures, *_pop_measures(outcomes)]
    axes = list(dict.fromkeys(name for point in outcomes.points for name in point.at))
    columns = [Column(name) for name in axes]
    for measure in measures:
        columns.append(Column(measure.name, measure.unit, measure.label))
        columns += [Column(f"{measure.name}_{end}", measure.unit, is_shown=False) for end in ("low", "high")]
    columns += [Column("n"), Column("spread", "share"), Column("note")]
    return Table(
        columns=tuple(columns),
        rows=tuple(_row(outcomes, point, measures) for point in outcomes.points),
        caption="; ".join([outcomes.caption, *_doubts_of_all(outcomes)]),
        findings=tuple(finding for finding in findings if finding),
        max_spread=outcomes.max_spread,
        facts=dict(facts or {}),
    )


def _doubts_of_all(outcomes: Outcomes) -> list[str]:
    """The doubts that all runs share, as those of a study whose runs are short by design."""
    results = outcomes.results
    return [f"all runs {said}" for said, doubt in DOUBTS.items() if results and all(map(doubt, results))]


def _pop_measures(outcomes: Outcomes) -> list[Measure]:
    """POP's efficiencies, if any point has members of several ranks."""
    several = any(result.plan.workers_per_member > 1 for result in outcomes.results)
    return [metric(name) for name in POP if several and name in metric_rows()]


def _row(outcomes: Outcomes, point: PointOutcomes, measures: Sequence[Measure]) -> dict[str, Cell]:
    row: dict[str, Cell] = dict(point.at)
    found: dict[str, Summary | None] = {}
    rounds: list[tuple[Measure, int]] = []
    for measure in measures:
        summary = measure.of(point)
        if isinstance(summary, int | float):
            summary = Summary(float(summary), float(summary), float(summary))
        elif summary is not None:
            rounds.append((measure, summary.n))
        found[measure.name] = summary
        value, low, high = (summary.value, summary.low, summary.high) if summary else (None, None, None)
        if summary and summary.n == 1 and low == high:  # a single run has no interval
            low = high = None
        row |= {measure.name: value, f"{measure.name}_low": low, f"{measure.name}_high": high}
    first = next(iter(found.values()), None)
    spread = first.spread if first and first.n > 1 else None
    empty = [measure for measure in measures if found[measure.name] is None]
    notes = _notes(outcomes, point, measures)
    notes += [f"{labels}: {reason}" for reason, labels in _reasons(point, empty) if reason not in "; ".join(notes)]
    notes += _fewer_rounds(point, rounds)
    if _is_above(spread, outcomes.max_spread):
        notes.append(f"spread {spread:.0%} is above {outcomes.max_spread:.0%}")
    return row | {"n": len(point.results()), "spread": spread, "note": point.gap or "; ".join(notes)}


def _notes(outcomes: Outcomes, point: PointOutcomes, measures: Sequence[Measure]) -> list[str]:
    notes = ["default"] if point.point.is_default else []
    for answer in ANSWERS:
        if found := [run for run in point.runs if run.answer == answer]:
            notes.append(f"{len(found)} of {outcomes.repeats} runs {answer}: {found[0].reason}")
    open_runs = [run for run in point.runs if run.answer is None]
    if (missing := outcomes.repeats - len(point.runs) + sum(run.result is None for run in open_runs)) > 0:
        why = next((run.reason for run in open_runs if run.reason), "not run yet")
        notes.append(f"{missing} of {outcomes.repeats} runs missing: {why}")
    if busy := busy_runs(point.runs):
        notes.append(busy)
    results = point.results()
    for said, doubt in DOUBTS.items():
        if all(map(doubt, outcomes.results)):  # of none more than of others: the caption says it
            continue
        if doubtful := sum(map(doubt, results)):
            notes.append(f"{doubtful} of {counted(len(results), 'run')} {said}")
    return notes + [text for measure in measures if (text := measure.why(point))]


# What may make the figures of a run differ from those of an undisturbed one.
DOUBTS: Mapping[str, Callable[[Result], bool]] = {
    "with damaged files": lambda result: bool(result.damage),
    "restarted from a checkpoint": lambda result: any(member.restarted for member in result.members),
    "trained members at different times": lambda result: len({member.attempts for member in result.members}) > 1,
    "never settled": lambda result: False in _settled(result),
    "too short to tell warm-up from steady state": lambda result: None in _settled(result),
}


def _settled(result: Result) -> list[bool | None]:
    """Whether the steps of each member settled; None if they were too few to tell; empty if nothing is known."""
    speed = result.metrics.get(SPEED)
    detail = (speed.detail or {}) if speed else {}
    counts = [
        sum(each) for each in zip(*(detail.get(f"{name}_steps", ()) for name in ("warmup", "steady")), strict=True)
    ]
    settled: list[bool] = detail.get("settled", [])
    steps = counts or [FEWEST_STEPS] * len(settled)
    return [None if count < FEWEST_STEPS else each for each, count in zip(settled, steps, strict=True)]


def _reasons(point: PointOutcomes, empty: Sequence[Measure]) -> list[tuple[str, str]]:
    """Returns each reason why cells are empty, and the headings of their columns."""
    labels: dict[str, list[str]] = {}
    for measure in empty:
        if reason := measure.reason(point):
            labels.setdefault(reason, []).append(measure.label)
    return [(reason, ", ".join(of_reason)) for reason, of_reason in labels.items()]


def _fewer_rounds(point: PointOutcomes, rounds: Iterable[tuple[Measure, int]]) -> list[str]:
    """Says which columns have fewer values than the row has runs.

    Ratios and differences lack rounds whose base is missing, metrics the runs whose files are damaged.
    """
    labels: dict[str, list[str]] = {}
    whole = [result for result in point.results() if not result.damage]
    for measure, n in rounds:
        measured = sum(run.value(measure.source) is not None for run in point.runs) if measure.source else 0
        if n < measured:
            labels.setdefault(f"from {n} of {measured} rounds", []).append(measure.label)
        elif not measure.source and measure.name in metric_rows() and n == len(whole) < len(point.results()):
            labels.setdefault(f"from {n} of {counted(len(point.results()), 'run')}", []).append(measure.label)
    return [f"{', '.join(of_reason)}: {reason}" for reason, of_reason in labels.items()]


def _is_above(spread: Cell, limit: float | None) -> TypeGuard[float]:
    return isinstance(spread, float) and limit is not None and spread > limit


def number(row: Mapping[str, Cell], name: str) -> float | None:
    """Returns a cell as a number; None for a gap."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def best_row(table: Table, name: str, **fixed: Cell) -> dict[str, Cell] | None:
    """Returns the row with the largest value among those with the `fixed` values; None if all are gaps."""
    rows = [row for row in table.where(**fixed) if number(row, name) is not None]
    return max(rows, key=lambda row: number(row, name) or 0.0) if rows else None


def curve(label: str, rows: Iterable[Mapping[str, Cell]], x: str, y: str, colour: str | None = None) -> Curve | None:
    """Returns the curve of a column over another, with its interval; None if all rows have gaps."""
    found = sorted(
        (at, value, low, high)
        for row in rows
        if (at := number(row, x)) is not None and (value := number(row, y)) is not None
        for low, high in [_ends(row, y, value)]
    )
    if not found:
        return None
    xs, ys, low, high = np.array(found, np.float64).T
    return Curve(label, xs, ys, low, high, colour=colour)


def _ends(row: Mapping[str, Cell], y: str, value: float) -> tuple[float, float]:
    low, high = number(row, f"{y}_low"), number(row, f"{y}_high")
    return (value if low is None else low), (value if high is None else high)


def curves(table: Table, x: str, y: str, by: str | None = None, **fixed: Cell) -> tuple[Curve, ...]:
    """Returns a curve per value of the column `by`, over all rows with the `fixed` values; gaps are left out."""
    rows = table.where(**fixed)
    if by is None:
        found = [curve(table.column(y).heading, rows, x, y)]
    else:
        groups, heading = dict.fromkeys(row.get(by) for row in rows), table.column(by).heading
        found = [curve(f"{heading} {value}", [r for r in rows if r.get(by) == value], x, y) for value in groups]
    return tuple(each for each in found if each is not None)


def bars(table: Table, label: str, names: str, y: str, **fixed: Cell) -> Bars:
    """Returns a bar per row with the `fixed` values, named by a column; gaps stay gaps."""
    rows = table.where(**fixed)
    return bars_of(label, [str(row[names]) for row in rows], rows, y)


def bars_of(
    label: str, names: Iterable[str], rows: Sequence[Mapping[str, Cell]], y: str, *, factor: float = 1.0
) -> Bars:
    """Returns a bar per row with its interval, times a factor; gaps stay gaps."""
    values = [[number(row, f"{y}{end}") for row in rows] for end in ("", "_low", "_high")]
    y_values, low, high = factor * np.array(values, np.float64)
    return Bars(label, tuple(names), y_values, low, high)


def heat_map(table: Table, title: str, x: str, y: str, of: str, **fixed: Cell) -> HeatMap:
    """Returns a column as cells over two others."""
    columns, lines = table.values(x), table.values(y)
    cells = {(row[y], row[x]): number(row, of) for row in table.where(**fixed)}
    values = np.array([[cells.get((line, column)) for column in columns] for line in lines], np.float64)
    headings = (table.column(x).heading, table.column(y).heading)
    return HeatMap(title, *headings, tuple(map(str, columns)), tuple(map(str, lines)), values, table.column(of).unit)


def figure(
    table: Table, name: str, title: str, text: str, *rows: Sequence[Plot | HeatMap | None], height: float = 2.9
) -> Figure:
    """Returns a figure whose caption has findings, machine, n, gaps and points of large spread."""
    drawn = tuple(tuple(row) for row in rows if not all(plot is None or _is_empty(plot) for plot in row))
    gaps = [row for row in table.rows if row.get("n") == 0]
    flagged = [row for row in table.rows if _is_above(row.get("spread"), table.max_spread)]
    parts = [text, *table.findings]
    if gaps:
        named = [f"{_where(table, row)} ({row.get('note')})" for row in gaps]
        parts.append(f"Gaps: {_first(named, MAX_GAPS)}")
    if flagged:
        parts.append(f"Spread above the limit at: {_first([_where(table, row) for row in flagged], MAX_FLAGGED)}")
    caption = " ".join(f"{part.rstrip('.')}." for part in [*parts, table.caption] if part)
    if not drawn:
        return Figure(title, f"Not shown: no point has a value. {caption}", name=name)
    return Figure(title, caption, drawn, (height,) * len(drawn), name)


def _first(texts: Sequence[str], most: int) -> str:
    """`a; b; c; and 2 more`."""
    rest = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return "; ".join([*texts[:most], *rest])


def _is_empty(plot: Plot | HeatMap) -> bool:
    return plot.is_empty if isinstance(plot, Plot) else not np.isfinite(plot.values).any()


def _where(table: Table, row: Mapping[str, Cell]) -> str:
    """The coordinates of a row: `threads=2 batch=64`."""
    axes = [column.name for column in table.axes()]
    return " ".join(f"{name}={row.get(name)}" for name in axes if row.get(name) is not None)
