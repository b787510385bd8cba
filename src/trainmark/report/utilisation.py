"""Utilisation over time (AI500's Fig. 6): cores, accelerators and network of each member."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trainmark.report.bars import PALETTE
from trainmark.report.drawing import Curve, Figure, Plot
from trainmark.report.node_series import MAX_POINTS, NodeSeries, Numbers, Panel, panels_of
from trainmark.report.plots import RankEvents
from trainmark.spec.result import Metric, Result
from trainmark.spec.units import show_value

TITLE = "Utilisation over time"
MAX_PANELS = 8

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, _ = PALETTE
GREY = "#999999"
NO_SERIES = "Not shown: no member has recorded utilisation; measure.usage_seconds=0 disables it."
FILLED = {
    "busy": ("CPU, all processes", SKY),
    "iowait": ("CPU waits for storage", ORANGE),
    "steal": ("CPU stolen", GREY),
}
LINES = {"own": ("CPU, the member's own", BLUE), "gpu": ("GPU", VERMILION)}
NETWORK = {"network": ("network, received + sent", GREEN), "loopback": ("loopback", PURPLE)}
ON_ONE_AXIS = {
    "own": ("CPU, each member's own", "%"),
    "gpu": ("GPU", "%"),
    "memory": ("resident memory of each member's processes on the node", "GiB"),
    "gpu_memory": ("memory per GPU", "GiB"),
    "network": ("network of the node, received + sent", "MB/s"),
    "loopback": ("loopback of the node", "MB/s"),
}


def utilisation_plot(result: Result, usage: NodeSeries, events: RankEvents) -> Figure:
    """Returns the figure, small multiples of at most eight nodes; the caption states what is omitted."""
    panels = panels_of(usage, events)
    if not panels:
        return Figure(TITLE, NO_SERIES)
    since = "Time counts from a member's first sample"
    return small_multiples(panels, f"{result.run_id} {TITLE}", f"{since}. {_means(result)}")


def small_multiples(panels: Sequence[Panel], name: str, remarks: str) -> Figure:
    """Returns a figure with one panel per node; the caption holds the remarks, and states what is omitted."""
    shown = panels[:: -(-len(panels) // MAX_PANELS)]
    columns = 1 if len(shown) == 1 else 2
    height = 2.9 if columns == 1 else 2.1  # of a panel: two parts for shares, one for bytes
    rows = _rows(shown, columns)
    heights = (height * 2 / 3, height / 3) * (len(rows) // 2)
    return Figure(TITLE, _caption(panels, shown, remarks), rows, heights, name=name)


def on_one_axis(panels: Sequence[Panel]) -> list[list[Plot]]:
    """Returns a row per figure that was sampled, with a line per node."""
    longest_s = max((float(panel.x[-1]) for panel in panels), default=0.0)
    seconds, unit = _time_unit(longest_s)
    sampled = [name for name in ON_ONE_AXIS if any(name in panel.figures for panel in panels)]
    rows = []
    for name in sampled:
        title, y_label = ON_ONE_AXIS[name]
        drawn = [_staircase(panel, name, panel.title, None, seconds) for panel in panels if name in panel.figures]
        most = 105.0 if y_label == "%" else None
        plot = Plot(title, f"time in {unit}" if name == sampled[-1] else "", y_label, tuple(drawn))
        rows.append([replace(plot, x_range=(0, longest_s / seconds), y_range=(0, most))])
    return rows


def _rows(panels: Sequence[Panel], columns: int) -> tuple[tuple[Plot | None, ...], ...]:
    """Returns, per row of panels, a row of utilisation plots above a row of traffic plots."""
    longest_s = max(float(panel.x[-1]) for panel in panels)
    most = max((np.nanmax(p.figures[name]) for p in panels for name in NETWORK if name in p.figures), default=0.0)
    rows: list[tuple[Plot | None, ...]] = []
    for first in range(0, len(panels), columns):
        uppers: list[Plot | None] = []
        lowers: list[Plot | None] = []
        for number in range(first, first + columns):
            if number >= len(panels):
                uppers.append(None)
                lowers.append(None)
                continue
            is_lowest = number + columns >= len(panels)
            upper, lower = _plots(panels[number], longest_s, most, has_y=number == first, has_x=is_lowest)
            uppers.append(upper)
            lowers.append(lower)
        rows += [tuple(uppers), tuple(lowers)]
    return tuple(rows)


def _plots(panel: Panel, longest_s: float, most_mb_per_s: float, *, has_y: bool, has_x: bool) -> tuple[Plot, Plot]:
    """Returns the utilisation and traffic plots of one node; only those at the edge get axis labels."""
    seconds, unit = _time_unit(longest_s)
    shaded = tuple((begin / seconds, end / seconds) for begin, end in panel.pauses)
    upper = Plot(
        panel.title,
        "",
        "%" if has_y else "",
        (*_areas(panel, seconds), *_stairs(panel, LINES, seconds)),
        shaded=shaded,
        x_range=(0, longest_s / seconds),
        y_range=(0, 105),
    )
    lower = Plot(
        "",
        f"time in {unit}" if has_x else "",
        "MB/s" if has_y else "",
        tuple(_stairs(panel, NETWORK, seconds)),
        shaded=shaded,
        x_range=upper.x_range,
        y_range=(0, 1.05 * most_mb_per_s or 1),
    )
    return upper, lower


def _areas(panel: Panel, seconds: float) -> Iterator[Curve]:
    """Yields stacked areas of the cores' time; parts below one percent would be invisible."""
    base = np.zeros(len(panel.x))
    for name, (label, colour) in FILLED.items():
        values = panel.figures.get(name)
        if values is not None and (name == "busy" or np.nanmax(values) >= 1):
            top = base + np.nan_to_num(values)
            edges, low, high = _edges(panel, seconds), _steps(base), _steps(top)
            yield Curve(label, edges, high, low, high, shape="area", colour=colour)
            base = top


def _stairs(panel: Panel, lines: Mapping[str, tuple[str, str]], seconds: float) -> Iterator[Curve]:
    for name, (label, colour) in lines.items():
        if name in panel.figures:
            yield _staircase(panel, name, label, colour, seconds)


def _staircase(panel: Panel, name: str, label: str, colour: str | None, seconds: float) -> Curve:
    return Curve(label, _edges(panel, seconds), _steps(panel.figures[name]), shape="stairs", colour=colour)


def _edges(panel: Panel, seconds: float) -> Numbers:
    return np.concatenate([[panel.begin_s], panel.x]) / seconds


def _steps(values: Numbers) -> Numbers:
    """Returns values for stairs over edges: each holds from the previous sample's end to its own."""
    return np.concatenate([values[:1], values])


def _time_unit(longest_s: float) -> tuple[float, str]:
    if longest_s < 600:
        return 1.0, "s"
    return (60.0, "min") if longest_s < 36_000 else (3600.0, "h")


def _beside(metric: Metric) -> str:
    """Returns the use by all processes, to follow the member's own."""
    total = (metric.detail or {}).get("total")
    return "" if total is None else f" (all processes {show_value(total, metric.unit)})"


def _means(result: Result) -> str:
    found = ""
    for name, label in (("cpu_utilisation", "CPU"), ("gpu_utilisation", "GPU")):
        metric = result.metrics.get(name)
        if metric is not None and metric.value is not None:
            found += f"Mean while training: {label} {show_value(metric.value, metric.unit)}{_beside(metric)}. "
    return found


def _caption(panels: Sequence[Panel], shown: Sequence[Panel], remarks: str) -> str:
    count, samples = len(panels), sum(panel.samples for panel in panels)
    caption = (
        "Upper: share of the member's cores (and accelerators) that were busy; lower: what passed through the node's "
        f"network interfaces, and through its loopback. Shaded: outside of epochs. {remarks}"
    )
    caption += f"n = {samples:,} sample{'s' * (samples != 1)} of {count} node{'s' * (count != 1)}."
    if len(shown) < count:
        caption += f" Drawn: {len(shown)} of them, evenly spaced."
    if any(panel.samples > MAX_POINTS for panel in shown):
        caption += f" Lines with more than {MAX_POINTS} samples are averaged over adjacent samples."
    return caption
