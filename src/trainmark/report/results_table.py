"""Table of many runs, one row each, with as many columns as fit."""

import csv
import io
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from rich.cells import cell_len

from trainmark.report.console import NARROW, result_console
from trainmark.spec.errors import escape_control_characters
from trainmark.spec.metrics import Column, metric_rows
from trainmark.spec.run_facts import Row
from trainmark.spec.run_folder import matches_id
from trainmark.spec.units import show_value

# Key of the row → heading and format.
Columns = dict[str, Column]
Cells = dict[str, list[str]]
OF_RUNS: Columns = {
    "run_id": Column("run", str),
    "workload": Column("workload", str),
    "size": Column("size", str),
    "model": Column("model", str),
    "precision": Column("prec.", str),
    "scale": Column("M×P", str),
    "state": Column("state", str),
    "tags": Column("tags", lambda tags: " ".join(tags)),  # type: ignore[arg-type]
}
DROP_ORDER = (
    "time_to_train_all_s",
    "vflops",
    "flops_share_of_ceiling",
    "workload",
    "precision",
    "size",
    "scale",
    "model",
    "tags",
)
START = len("20261115-045355")


def _of_metrics() -> Columns:
    return {name: row.results_column for name, row in metric_rows().items() if row.results_column is not None}


def shown_metrics() -> list[str]:
    """Returns the metrics that the table has unless columns are chosen."""
    return list(_of_metrics())


def print_results(rows: list[Row], all_ids: list[str], runs_dir: str, chosen: Sequence[str] = ()) -> None:
    """Prints the rows as a table of the chosen columns, or of as many as fit; short ids are unique among `all_ids`."""
    console = result_console()
    if not rows:
        none = f"No runs in {runs_dir}. Start one with: trainmark run"
        if all_ids:
            none = f"None of the {len(all_ids)} runs in {runs_dir} matches. "
            none += "Remove --workload, --state and --where to see them."
        console.print(none, soft_wrap=True, markup=False)
        return
    gap = 1 if console.width < NARROW else 2
    hidden: list[str] = []
    if chosen:
        cells = _cells(rows, {name: _column(name) for name in chosen})
    else:
        cells, hidden = _fitting(rows, all_ids, console.width, gap)
    heading, *lines = _lines(cells, rows, gap)
    console.print(heading, style="bold", markup=False, soft_wrap=True)
    console.file.write("".join(f"{line}\n" for line in lines))  # rich takes seconds for thousands
    if hidden:
        console.print(f"Not shown at this width: {', '.join(hidden)}. Widen the terminal, or add --json.", style="dim")
    for row in rows:
        if row["damage"]:
            more = f" (and {len(row['damage']) - 1} more)" if len(row["damage"]) > 1 else ""
            console.print(f"! {row['run_id']}: {row['damage'][0]}{more}", style="yellow", markup=False)


def _column(name: str) -> Column:
    """Returns a chosen column: its name is its heading."""
    known = (OF_RUNS | _of_metrics()).get(name)
    return Column(name, known.show if known else partial(_show, unit=_units().get(name, "")))


def _units() -> dict[str, str]:
    return {name: row.unit for name, row in metric_rows().items()}


def _show(value: Any, unit: str) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return show_value(value, unit) if isinstance(value, float) else str(value)


def _cells(rows: list[Row], columns: Columns) -> Cells:
    """Returns the texts of each column, its heading first."""
    return {name: [column.heading, *_texts(rows, name, column)] for name, column in columns.items()}


def _texts(rows: list[Row], name: str, column: Column) -> Iterator[str]:
    shown: dict[Any, str] = {None: ""}  # most values of most columns are alike
    for row in rows:
        value = row[name]
        key = tuple(value) if isinstance(value, list) else value
        if key not in shown:
            text = column.show(value)
            shown[key] = text if text.isprintable() else escape_control_characters(text)
        yield shown[key]


def _width(texts: Collection[str]) -> int:
    """Returns the width of a column on a terminal."""
    different = set(texts)
    return max(len(text) if text.isascii() else cell_len(text) for text in different)


def _fitting(rows: list[Row], all_ids: list[str], width: int, gap: int) -> tuple[Cells, list[str]]:
    """Returns the widest table that fits, and the headings of its hidden columns."""
    columns = OF_RUNS | _of_metrics()
    if not any(row["tags"] for row in rows):
        del columns["tags"]
    scales = (None if row["members"] is None else f"{row['members']}×{row['workers']}" for row in rows)
    every = _cells([{**row, "scale": scale} for row, scale in zip(rows, scales, strict=True)], columns)
    widths = {name: _width(cells) for name, cells in every.items()}

    def fits() -> bool:
        return sum(widths.values()) + gap * (len(widths) - 1) <= width

    if not fits():
        every["run_id"][1:] = short_ids([row["run_id"] for row in rows], all_ids)
        widths["run_id"] = _width(every["run_id"])
    for name in DROP_ORDER:
        if fits():
            break
        widths.pop(name, None)
    return {name: every[name] for name in widths}, [columns[name].heading for name in every if name not in widths]


def short_ids(run_ids: Sequence[str], all_ids: Sequence[str]) -> list[str]:
    """Returns for each run its start time, plus the id's suffix if runs started in the same second, or the full id."""
    by_start, by_end = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for run_id in all_ids:
        by_start[run_id[:START]].append(run_id)
        by_end[run_id.rpartition("-")[2]].append(run_id)

    def short(run_id: str) -> str:
        start = run_id[:START]
        for name in (start, f"{start}-{run_id.rpartition('-')[2]}"):
            among = {*by_start[start], *by_end[name.rpartition("-")[2]]}  # all that the name could mean
            if START <= len(name) < len(run_id) and sum(matches_id(other, name) for other in among) == 1:
                return name
        return run_id

    return [short(run_id) for run_id in run_ids]


def _lines(cells: Cells, rows: list[Row], gap: int) -> list[str]:
    """Returns the lines of a table; texts are aligned on the left, figures on the right."""
    aligned = []
    for name, texts in cells.items():
        width = _width(texts)
        is_text = name in OF_RUNS or any(isinstance(row[name], str | list) for row in rows)
        pads = {text: " " * (width - cell_len(text)) for text in set(texts)}
        aligned.append([text + pads[text] if is_text else pads[text] + text for text in texts])
    return [(" " * gap).join(line).rstrip() for line in zip(*aligned, strict=True)]


def as_csv(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    """Returns the rows as RFC 4180 has them: lines end in CRLF, a gap is an empty field, lists are joined."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(names)
    writer.writerows([_field(value) for value in row] for row in rows)
    return file.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value
