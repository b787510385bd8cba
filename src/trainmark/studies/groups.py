"""Groups of stored runs: how many there are, and median and interval of their figures."""

from collections.abc import Sequence

from trainmark.spec.metrics import metric_rows
from trainmark.spec.run_facts import Row
from trainmark.spec.table import Cell, Column, Table
from trainmark.spec.units import counted
from trainmark.studies.outcomes import INTERVAL, summarise


def group_runs(rows: Sequence[Row], by: Sequence[str], figures: Sequence[str]) -> Table:
    """Returns a row per group, in order of appearance: number of runs, and of each figure median, interval and n."""
    groups: dict[tuple[Cell, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_cell(row[name]) for name in by), []).append(row)
    known = metric_rows()
    columns = [Column(name) for name in (*by, "runs")]
    for name in figures:
        unit, label = (known[name].unit, known[name].label) if name in known else ("", "")
        columns.append(Column(name, unit, label))
        columns += [Column(f"{name}_{end}", unit, is_shown=False) for end in ("low", "high")]
        columns.append(Column(f"{name}_n", is_shown=False))
    return Table(
        columns=tuple(columns),
        rows=tuple(
            dict(zip(by, key, strict=True)) | {"runs": len(found)} | _summaries(found, figures)
            for key, found in groups.items()
        ),
        caption=f"{counted(len(rows), 'run')} in {counted(len(groups), 'group')}; median ({INTERVAL})",
    )


def _cell(value: object) -> Cell:
    if isinstance(value, list):
        return " ".join(map(str, value)) or None
    return value if isinstance(value, str | int | float) else None


def _summaries(rows: Sequence[Row], figures: Sequence[str]) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for name in figures:
        values = [row[name] for row in rows]
        found = summarise(float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values)
        ends = (found.value, found.low, found.high) if found else (None, None, None)
        cells |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        cells[f"{name}_n"] = found.n if found else 0
    return cells
