"""This machine, and what was found on it, on a terminal."""

from typing import Any

from rich.table import Table

from trainmark.report.console import result_console
from trainmark.spec.status import Finding
from trainmark.spec.units import counted, show_bytes, show_cores, with_prefix


def _load(ceiling: dict[str, Any]) -> str:
    """How much of the cores others took: the more, the lower is what was measured."""
    if ceiling["no_progress"] is not None:
        return f"not watched: {ceiling['no_progress']}"
    over_s, others_s = (sum(each[name] for each in ceiling["rounds"]) for name in ("over_s", "others_s"))
    return f"{others_s / over_s:.2f} of {counted(ceiling['cores'], 'core')}"


def print_machine(data: dict[str, Any]) -> None:
    """Topology, slots, software and, where measured, the ceiling."""
    machine = data["machine"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("host", machine["host"])
    table.add_row(
        "processor", f"{machine['cpu']} ({machine['architecture']}; {', '.join(machine['instruction_sets'])})"
    )
    domains = machine["numa_domains"]
    table.add_row("cores", f"{machine['cores']} in {counted(len(domains), 'NUMA domain')}: {' | '.join(domains)}")
    table.add_row("memory", show_bytes(machine["memory_bytes"]))
    table.add_row("accelerators", ", ".join(a["name"] for a in machine["accelerators"]) or "none")
    for group in data["site"]["groups"]:
        for number, slot in enumerate(group["slots"]):
            device = "" if slot["accelerator"] is None else f", accelerator {slot['accelerator']}"
            table.add_row(f"worker slot {number}", f"cores {show_cores(tuple(slot['cores']))}{device}")
    table.add_row("software", ", ".join(f"{name} {version}" for name, version in data["software"].items()))
    if ceiling := data.get("ceiling"):
        for name, kernel in ceiling["kernels"].items():
            won = " (the ceiling)" if name == ceiling["kernel"] else ""
            table.add_row(f"ceiling, {ceiling['precision']}", f"{with_prefix(kernel['flops'], 'FLOP/s')}, {name}{won}")
        table.add_row("load by others meanwhile", _load(ceiling))
    result_console().print(table)


MARKS = {"good": "ok", "warning": "!", "problem": "PROBLEM"}


def findings_table(findings: list[Finding]) -> Table:
    """One row per finding, in the order in which things were looked at."""
    table = Table("", "what", "found", "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(MARKS[finding.verdict], finding.what, finding.found, finding.fix)
    return table
