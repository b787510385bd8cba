"""Figures of the study of size and shape: time over steps, pixels and memory, counters, batching strategies."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trainmark.report.bars import Bars
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.spec.table import Cell, Table
from trainmark.studies.tables import bars_of, figure

GIB = 2**30
RANDOM = "random"  # the strategy of HRVS, which all others are compared with
PACE, INFORMATIVE_PACE = "seconds_per_megapixel", "seconds_per_informative_megapixel"
RATIO, STEP_MEMORY = "padding_ratio", "step_memory_bytes"
COUNTERS = ("instructions_per_megapixel", "instructions_per_cycle", "cache_misses_per_1000_instructions")
PER_INFORMATIVE = "instructions_per_informative_megapixel"
TIMES = {False: "time per megapixel", True: "time per informative megapixel"}


def size_and_shape_figures(table: Table) -> list[Figure]:
    """Returns the figures of the table; those of counters only where a point has some."""
    cores = table.values("cores")
    found = [_over_steps(table, count) for count in cores]
    found += [_pixels(table), _memory(table)]
    if any(table.has(name) for name in COUNTERS):
        found.append(_counters(table))
    return [*found, *(_strategies(table, count) for count in cores if len(table.values("batching")) > 1)]


def _over_steps(table: Table, cores: Cell) -> Figure:
    """A line per input over the steps, as HRVS draws them; without events, bars of the medians."""
    plots = [_steps_plot(table, cores, is_informative=is_informative) for is_informative in TIMES]
    if all(plot.is_empty for plot in plots):
        plots = [
            Plot(title, "input", "s/MP", bars=(_bars(table, f"{cores} cores", name, cores),), y_range=(0, None))
            for title, name in zip(TIMES.values(), (PACE, INFORMATIVE_PACE), strict=True)
        ]
    text = f"Time per megapixel, padding included and not, by input; {RANDOM} batches; cores: {cores}"
    return figure(table, f"size-and-shape-time-{cores}-cores", "Time per megapixel", text, plots)


def _steps_plot(table: Table, cores: Cell, *, is_informative: bool) -> Plot:
    series: Sequence[dict[str, Any]] = table.facts.get("steps", [])
    wanted = {"cores": cores, "batching": RANDOM, "is_informative": is_informative}
    chosen = [each for each in series if all(each[key] == value for key, value in wanted.items())]
    curves = tuple(_curve(each) for each in chosen)
    # The first step is warm-up, and would hide the others.
    highest = max((float(curve.y[1:].max()) for curve in curves if len(curve.y) > 1), default=None)
    limit = None if highest is None else 1.3 * highest
    return Plot(TIMES[is_informative], "step", "s/MP", curves, x_scale="whole", y_range=(0, limit))


def _curve(series: dict[str, Any]) -> Curve:
    pace, low, high = (np.array(series[part], np.float64) for part in ("pace", "low", "high"))
    return Curve(str(series["input"]), np.arange(1.0, len(pace) + 1), pace, low, high)


def _bars(table: Table, label: str, column: str, cores: Cell, factor: float = 1.0) -> Bars:
    rows = table.where(cores=cores, batching=RANDOM)
    return bars_of(label, [str(row["input"]) for row in rows], rows, column, factor=factor)


def _pixels(table: Table) -> Figure:
    """Table 1, drawn: the mean of the steps, from the smallest to the largest."""
    first, *_ = table.values("cores") or [None]
    parts = ("informative_mp", "padding_mp", "total_mp")
    pixels = Plot(
        "per step: mean, smallest to largest",
        "input",
        "megapixels",
        bars=tuple(_bars(table, part.removesuffix("_mp"), part, first) for part in parts),
        y_range=(0, None),
    )
    text = f"Pixels of a step, informative and padding, by input; {RANDOM} batches"
    return figure(table, "size-and-shape-pixels", "Pixels", text, [pixels])


def _memory(table: Table) -> Figure:
    """Table 2, drawn: the mean of the steps' peaks, from the smallest to the largest; by input, and by strategy."""
    first, *_ = table.values("cores") or [None]
    bars = tuple(_bars(table, f"{cores} cores", STEP_MEMORY, cores, 1 / GIB) for cores in table.values("cores"))
    plots = [Plot(f"{RANDOM} batches", "input", "memory per step (GiB)", bars=bars, y_range=(0, None))]
    if by_strategy := tuple(_by_strategy(table, STEP_MEMORY, first, 1 / GIB)):
        plots.append(Plot("by strategy", "batching", "memory per step (GiB)", bars=by_strategy, y_range=(0, None)))
    text = "Peak memory of the worker in a step: mean, smallest and largest, by input and batching strategy"
    return figure(table, "size-and-shape-memory", "Memory per step", text, plots)


def _counters(table: Table) -> Figure:
    def plot(title: str, y_label: str, column: str) -> Plot:
        bars = tuple(_bars(table, f"{cores} cores", column, cores) for cores in table.values("cores"))
        return Plot(title, "input", y_label, bars=bars, y_range=(0, None))

    first = [
        plot("all pixels", "instructions per MP", COUNTERS[0]),
        plot("informative pixels", "instructions per MP", PER_INFORMATIVE),
    ]
    second = [
        plot("instructions per cycle", "IPC", COUNTERS[1]),
        plot("last-level-cache misses per 1000 instructions", "MPKI", COUNTERS[2]),
    ]
    text = f"Hardware counters of the worker's threads in user space while they train, by input; {RANDOM} batches"
    return figure(table, "size-and-shape-counters", "Hardware counters", text, first, second)


def _strategies(table: Table, cores: Cell) -> Figure:
    ratio = Plot(
        "total over informative pixels",
        "batching",
        "ratio",
        references=(Reference("no padding", 1.0),),
        bars=tuple(_by_strategy(table, RATIO, cores)),
        y_range=(0, None),
    )
    pace = Plot(
        "time per informative megapixel",
        "batching",
        "s/MP",
        bars=tuple(_by_strategy(table, INFORMATIVE_PACE, cores)),
        y_range=(0, None),
    )
    text = f"Padding, and time per informative megapixel, by batching strategy and input; cores: {cores}"
    return figure(table, f"size-and-shape-batching-{cores}-cores", "Batching strategies", text, [ratio, pace])


def _by_strategy(table: Table, column: str, cores: Cell, factor: float = 1.0) -> Iterator[Bars]:
    """Bars of each input that has several strategies; one that was not measured is a gap."""
    strategies = table.values("batching")
    for name in table.values("input"):
        rows = {row["batching"]: row for row in table.where(input=name, cores=cores)}
        if len(rows) > 1:
            chosen = [rows.get(strategy, {}) for strategy in strategies]
            yield bars_of(str(name), map(str, strategies), chosen, column, factor=factor)
