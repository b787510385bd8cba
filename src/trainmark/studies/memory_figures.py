"""Figures of the study of memory: peak memory over batch, what techniques save and cost, the largest batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainmark.report.bars import PALETTE, Bars
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.spec.table import Cell, Table
from trainmark.studies.largest_batch import GIB, PEAK, RESOLUTION
from trainmark.studies.tables import curve, figure

NONE = "none"  # the technique that all others are compared with


def memory_figures(table: Table) -> list[Figure]:
    """Returns the figures of the table."""
    limits, memory = table.facts["limits_gib"], table.facts["accelerator_gib"]
    lines = [Reference(f"limit {limit:g} GiB", limit) for limit in limits]
    lines += [Reference(f"accelerator: {memory:.4g} GiB", memory)] if memory else []
    plots = [
        Plot(
            str(precision),
            "batch per worker (samples)",
            "peak memory per worker (GiB)",
            tuple(_scaled_curves(table, PEAK, 1 / GIB, precision)),
            tuple(lines),
            x_scale="whole",  # memory grows linearly: a line is a line
            x_range=(0, None),
            y_range=(0, None),
        )
        for precision in table.values("precision")
    ]
    text = "Peak memory of a worker (the largest of all ranks) over its batch, a curve per technique"
    figures = [figure(table, "memory", "Peak memory", text, plots), _against_none(table)]
    return [*figures, _largest(table)] if table.facts["largest"] else figures


def _scaled_curves(table: Table, column: str, factor: float, precision: Cell) -> Iterator[Curve]:
    """A curve per technique over batch, times a factor, each in the colour of its technique."""
    for technique, colour in zip(table.values("technique"), PALETTE, strict=False):
        rows = table.where(technique=technique, precision=precision)
        if (found := curve(str(technique), rows, "batch", column, colour)) is not None:
            low, high = (None if end is None else end * factor for end in (found.low, found.high))
            yield replace(found, y=found.y * factor, low=low, high=high)


def _against_none(table: Table) -> Figure:
    """What each technique saves and costs, over all batches at which it was compared."""
    rows = [
        [
            Plot(
                f"{precision}: {column.replace('_', ' ')}",
                "batch per worker (samples)",
                "of that without technique (%)",
                tuple(_scaled_curves(table, column, 100, precision)),
                (Reference(NONE, 0.0),),
                x_scale="whole",
                x_range=(0, None),
            )
            for column in ("memory_saved", "throughput_lost")
        ]
        for precision in table.values("precision")
    ]
    text = "Memory saved and throughput lost per worker against training without the technique, at the same batch"
    return figure(table, "memory-against-none", "What the techniques save and cost", text, *rows)


def _largest(table: Table) -> Figure:
    """Bars of the largest batch per technique, a plot per limit."""
    found: list[dict[str, Any]] = table.facts["largest"]
    plots = []
    for limit in dict.fromkeys(each["limit_gib"] for each in found):
        under = [each for each in found if each["limit_gib"] == limit]
        title = "on the accelerator" if limit is None else f"within {limit:g} GiB per worker"
        plots.append(Plot(title, "", "largest batch per worker (samples)", bars=tuple(_bars(under))))
    text = (
        f"Largest batch that fits, by bisection: one that is 1/{RESOLUTION} larger, and at least one sample, does not. "
        "≥: the search ended before one did not fit, or failed; 0: not even one sample fits"
    )
    return figure(table, "largest-batch", "Largest batch", text, plots)


def _bars(found: Sequence[Mapping[str, Any]]) -> Iterator[Bars]:
    """A bar per technique for each precision; a gap where nothing is known."""
    names = tuple(dict.fromkeys(str(each["technique"]) for each in found))
    for precision in dict.fromkeys(str(each["precision"]) for each in found):
        known = {
            each["technique"]: each
            for each in found
            if each["precision"] == precision and (each["is_found"] or each["batch"])
        }
        batches = np.array([known[name]["batch"] if name in known else None for name in names], np.float64)
        are_bounds = tuple(name in known and not known[name]["is_found"] for name in names)
        yield Bars(precision, names, batches, are_bounds=are_bounds)
