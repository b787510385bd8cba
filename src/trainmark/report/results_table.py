"""Many Results in one table, a line each."""

from typing import Any

from rich.console import Console
from rich.table import Table

from trainmark.spec.result import Result
from trainmark.spec.units import show_value

METRICS = (
    "throughput_samples_per_s",
    "flops",
    "flops_share_of_ceiling",
    "quality_ensemble",
    "vflops",
    "time_to_train_all_s",
)


def result_row(run_id: str, result: Result | None) -> dict[str, Any]:
    """One run as a flat record; one whose Result cannot be read is listed all the same."""
    row: dict[str, Any] = {"run_id": run_id, "state": "unreadable", "workload": None, "size": None}
    row |= {"members": None, "workers": None, **dict.fromkeys(METRICS)}
    if result is not None:
        row |= {"state": result.state, "workload": result.workload, "size": result.size}
        row |= {"members": result.plan["members"], "workers": result.plan["workers_per_member"]}
        row |= {name: result.metrics[name].value for name in METRICS}
    return row


def print_results(rows: list[dict[str, Any]], runs_dir: str) -> None:
    """The rows as a table, or how to get some."""
    console = Console()
    console = console if console.is_terminal else Console(width=200)
    if not rows:
        console.print(f"No such runs in {runs_dir}. Start one with: trainmark run")
        return
    table = Table("run", "state", "M × P", "throughput", "FLOPS", "share", "quality", "VFLOPS", "TTTa", box=None)
    units = ("samples/s", "FLOP/s", "share", "", "FLOP/s", "s")
    for row in rows:
        scale = "" if row["members"] is None else f"{row['members']} × {row['workers']}"
        shown = [
            "" if row[name] is None else show_value(row[name], unit) for name, unit in zip(METRICS, units, strict=True)
        ]
        table.add_row(row["run_id"], row["state"], scale, *shown)
    console.print(table)
