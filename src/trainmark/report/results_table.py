"""Many Results in one table, a line each."""

from typing import Any

from rich.table import Table

from trainmark.report.console import result_console
from trainmark.spec.result import Result
from trainmark.spec.units import show_value

# Name in the Result → heading and unit.
COLUMNS = {
    "throughput_samples_per_s": ("throughput", "samples/s"),
    "flops": ("FLOPS", "FLOP/s"),
    "flops_share_of_ceiling": ("share", "share"),
    "quality_ensemble": ("quality", ""),
    "vflops": ("VFLOPS", "FLOP/s"),
    "time_to_train_all_s": ("TTTa", "s"),
}
MOST_WANTED = ("flops", "vflops")  # of these there is room on a terminal of 80 columns
WIDE = 130


def result_row(run_id: str, result: Result | None, reason: str | None = None) -> dict[str, Any]:
    """One run as a flat record; one whose Result cannot be read is listed all the same, for that reason."""
    row: dict[str, Any] = {"run_id": run_id, "state": "unreadable", "workload": None, "size": None}
    row |= {"members": None, "workers": None, **dict.fromkeys(COLUMNS), "damage": [reason] if reason else []}
    if result is not None:
        row |= {"state": result.state, "workload": result.workload, "size": result.size}
        row |= {"members": result.plan["members"], "workers": result.plan["workers_per_member"]}
        row |= {name: result.metrics[name].value for name in COLUMNS if name in result.metrics}
        row |= {"damage": result.damage}
    return row


def print_results(rows: list[dict[str, Any]], runs_dir: str) -> None:
    """The rows as a table, or how to get some."""
    console = result_console()
    if not rows:
        console.print(f"No such runs in {runs_dir}. Start one with: trainmark run")
        return
    shown = COLUMNS if console.width >= WIDE else {name: COLUMNS[name] for name in MOST_WANTED}
    table = Table(box=None, pad_edge=False)
    table.add_column("run", no_wrap=True, min_width=max(len(row["run_id"]) for row in rows))
    for label in ("state", "M × P", *(label for label, _ in shown.values())):
        table.add_column(label, no_wrap=True)
    for row in rows:
        scale = "" if row["members"] is None else f"{row['members']} × {row['workers']}"
        values = ["" if row[name] is None else show_value(row[name], unit) for name, (_, unit) in shown.items()]
        table.add_row(row["run_id"], row["state"], scale, *values)
    console.print(table)
    for row in rows:
        if row["damage"]:
            more = f" (and {len(row['damage']) - 1} more)" if len(row["damage"]) > 1 else ""
            console.print(f"! {row['run_id']}: {row['damage'][0]}{more}", style="yellow", markup=False)
