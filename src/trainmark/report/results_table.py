"""Table of many Results, one row each, with as many columns as fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from trainmark.report.console import NARROW, result_console
from trainmark.spec.metrics import Column, metric_rows
from trainmark.spec.result import Result
from trainmark.spec.run_folder import matches_id

Row = dict[str, Any]

# Key of the row → heading and format.
Columns = dict[str, Column]
OF_RUNS: Columns = {
    "run_id": Column("run", str),
    "workload": Column("workload", str),
    "size": Column("size", str),
    "model": Column("model", str),
    "precision": Column("prec.", str),
    "scale": Column("M×P", str),
    "state": Column("state", str),
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
)
START = len("20261115-045355")


def _of_metrics() -> Columns:
    return {name: row.results_column for name, row in metric_rows().items() if row.results_column is not None}


def result_row(path: Path, result: Result | None, reason: str | None) -> Row:
    """Returns a run as a flat record; a run without a readable Result has the reason."""
    row: Row = {"run_id": path.name, "path": str(path), "state": "unreadable", "started_at": None}
    row |= dict.fromkeys(("workload", "size", "model", "dataset", "precision", "members", "workers", "system_scale"))
    metrics = _of_metrics()
    row |= {"members_finished": None, **dict.fromkeys(metrics), "damage": [reason] if reason else []}
    if result is None:
        return row
    config, plan = result.config, result.plan
    return row | {
        "state": result.state,
        "started_at": result.started_at,
        "workload": result.workload,
        "size": result.size,
        "model": config.model,
        "dataset": config.dataset,
        "precision": config.train.precision,
        "members": plan.members,
        "workers": plan.workers_per_member,
        "system_scale": plan.system_scale,
        "members_finished": sum(member.state == "finished" for member in result.members),
        **{name: result.metrics[name].value for name in metrics if name in result.metrics},
        "damage": result.damage,
    }


def print_results(rows: list[Row], all_ids: list[str], runs_dir: str) -> None:
    """Prints the rows as a table; `all_ids` of all stored runs keep shortened ids unique."""
    console = result_console()
    if not rows:
        none = f"No runs in {runs_dir}. Start one with: trainmark run"
        if all_ids:
            none = f"None of the {len(all_ids)} runs in {runs_dir} matches. Remove --workload and --state to see them."
        console.print(none, soft_wrap=True, markup=False)
        return
    layouts = list(_layouts(rows, all_ids, console))
    unlimited = console.options.update(max_width=10_000)
    fitting = (each for each in layouts if console.measure(each[0], options=unlimited).maximum <= console.width)
    table, hidden = next(fitting, layouts[-1])
    console.print(table)
    if hidden:
        console.print(f"Not shown at this width: {', '.join(hidden)}. Widen the terminal, or add --json.", style="dim")
    for row in rows:
        if row["damage"]:
            more = f" (and {len(row['damage']) - 1} more)" if len(row["damage"]) > 1 else ""
            console.print(f"! {row['run_id']}: {row['damage'][0]}{more}", style="yellow", markup=False)


def _layouts(rows: list[Row], all_ids: list[str], console: Console) -> Iterator[tuple[Table, list[str]]]:
    """Yields tables from the widest to the narrowest, each with the headings of its hidden columns."""
    columns = every = OF_RUNS | _of_metrics()
    yield _table(rows, columns, console), []
    short = [{**row, "run_id": short_id(row["run_id"], all_ids)} for row in rows]
    yield _table(short, columns, console), []
    hidden: list[str] = []
    for name in DROP_ORDER:
        columns = {key: column for key, column in columns.items() if key != name}
        hidden.append(name)
        yield _table(short, columns, console), [every[key].heading for key in every if key in hidden]


def short_id(run_id: str, all_ids: list[str]) -> str:
    """Returns the start time, plus the id's suffix if runs started in the same second, or the full id."""
    start = run_id[:START]
    for short in (start, f"{start}-{run_id.rpartition('-')[2]}"):
        if len(short) < len(run_id) and sum(matches_id(other, short) for other in all_ids) == 1:
            return short
    return run_id


def _table(rows: list[Row], columns: Columns, console: Console) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1 if console.width < NARROW else 2, 0, 0))
    for name, column in columns.items():
        table.add_column(column.heading, no_wrap=True, justify="left" if name in OF_RUNS else "right")
    for row in rows:
        scale = None if row["members"] is None else f"{row['members']}×{row['workers']}"
        shown = row | {"scale": scale}
        table.add_row(*("" if shown[name] is None else column.show(shown[name]) for name, column in columns.items()))
    return table
