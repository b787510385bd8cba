"""FLOP counts of a model on a terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table

from trainmark.spec.units import with_prefix


def print_flops(counts: dict[str, Any]) -> None:
    """One table a convention: operators, then forward and training totals."""
    console = Console()
    shape = " × ".join(str(n) for n in counts["input_shape"])
    console.print(f"{counts['model']}, input {shape}: {counts['parameters']:,} parameters, FLOPs per sample")
    for convention, count in counts["conventions"].items():
        console.print(f"\n[bold]{convention}[/bold]: {count['rule']}")
        table = Table("operator, in one training step", "", box=None, pad_edge=False)
        for operator, flop in sorted(count["operators"].items(), key=lambda item: -item[1]):
            table.add_row(operator, with_prefix(flop, "FLOP"))
        table.add_section()
        for name in ("forward", "training", "training_plain_3x"):
            table.add_row(name, with_prefix(count[name], "FLOP"), style="bold")
        console.print(table)
