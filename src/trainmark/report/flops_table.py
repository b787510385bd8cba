"""FLOP counts of a model on a terminal."""

from math import prod
from typing import Any

from rich.console import Console
from rich.table import Table

from trainmark.report.console import NARROW, result_console
from trainmark.spec.units import show_bytes, show_shape, with_prefix


def print_flops(counts: dict[str, Any], *, layers: bool) -> None:
    """Prints the cost of one input: totals, operators per convention, and optionally layers."""
    console = result_console()
    console.print(
        f"{counts['model']}, input {show_shape(counts['input_shape'])}: {counts['parameters']:,} parameters, "
        "FLOPs per sample"
    )
    console.print(
        f"kept for the backward pass: {show_bytes(counts['activation_bytes'])} per sample in fp32; "
        f"arithmetic intensity: {counts['arithmetic_intensity']:.4g} FLOP/byte (forward, one sample, fp32)"
    )
    for convention, count in counts["conventions"].items():
        _print_convention(convention, count, console)
    if layers:
        console.print("\n[bold]layers[/bold]: FLOPs by the exact convention; bytes for one sample in fp32")
        console.print(_layers(counts["layers"]))


def print_flops_by_input(counts: list[dict[str, Any]]) -> None:
    """Prints FLOPs by input size, one row per input."""
    console = result_console()
    console.print(f"{counts[0]['model']}: {counts[0]['parameters']:,} parameters, FLOPs per sample")
    table = Table(box=None, pad_edge=False, padding=(0, 1 if console.width < NARROW else 2, 0, 0))
    table.add_column("input", no_wrap=True)
    for heading in ("pixels", "forward", "training", "per pixel", "ai500", "kept", "FLOP/byte"):
        table.add_column(heading, justify="right", no_wrap=True)
    for count in counts:
        exact, ai500 = (count["conventions"][name] for name in ("exact", "ai500"))
        pixels = prod(count["input_shape"][1:])
        table.add_row(
            show_shape(count["input_shape"]),
            with_prefix(pixels, "").strip(),
            *(with_prefix(flop, "").strip() for flop in (exact["forward"], exact["training"])),
            *(with_prefix(flop, "").strip() for flop in (exact["training"] / pixels, ai500["training"])),
            show_bytes(count["activation_bytes"]),
            f"{count['arithmetic_intensity']:.4g}",
        )
    console.print(table)
    console.print(
        "exact convention: forward, training, and training per pixel. ai500: training. kept: for the backward pass."
    )
    if each := counts[0]["conventions"]["exact"].get("per_proposal"):
        forward, training = (with_prefix(each[key], "FLOP") for key in ("forward", "training"))
        console.print(
            f"Not in the table: proposals, whose number depends on the data. Each adds {forward} forward and "
            f"{training} in training (exact), at any image size."
        )


def _print_convention(name: str, count: dict[str, Any], console: Console) -> None:
    console.print(f"\n[bold]{name}[/bold]: {count['rule']}")
    table = Table("operator", box=None, pad_edge=False)
    for heading in ("forward", "training"):
        table.add_column(heading, justify="right")
    for operator, flop in sorted(count["operators"].items(), key=lambda item: -item[1]):
        forward = count["operators_forward"].get(operator)
        table.add_row(operator, with_prefix(forward, "FLOP") if forward else "", with_prefix(flop, "FLOP"))
    table.add_section()
    for row, figures in (("total", count), ("each proposal", count.get("per_proposal"))):
        if figures:
            table.add_row(row, *(with_prefix(figures[key], "FLOP") for key in ("forward", "training")), style="bold")
    table.add_row("3 × forward", "", with_prefix(count["training_plain_3x"], "FLOP"))
    console.print(table)


def _layers(rows: list[dict[str, Any]]) -> Table:
    table = Table("layer", "output", box=None, pad_edge=False)
    for heading in ("parameters", "forward", "training", "kept activations", "FLOP/byte"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['layer']} {row['kind']}",
            show_shape(row["output_shape"]),
            f"{row['parameters']:,}",
            *(with_prefix(row[key], "FLOP") for key in ("forward", "training")),
            show_bytes(row["activation_bytes"]),
            f"{row['arithmetic_intensity']:.3g}",
        )
    return table
