"""Utilisation over time (AI500's Fig. 6): cores, accelerators and network of each member."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.report.bars import PALETTE
from trainmark.report.drawing import Curve, Figure, Plot
from trainmark.report.plots import RankEvents
from trainmark.spec.event_files import first_of
from trainmark.spec.events import EpochStart, EpochStop, Event
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.result import Metric, Result
from trainmark.spec.units import parse_cores, show_value

TITLE = "Utilisation over time"
MAX_PANELS = 8
MAX_POINTS = 600  # per line; a panel is about 350 pixels wide
MIN_GAP = 1 / 500  # of a panel's width: shorter pauses are invisible

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

Numbers = NDArray[np.float64]
NodeSeries = Mapping[int, Sequence[Sequence[Event]]]  # member → the series of each of its nodes


@dataclass(frozen=True)
class Panel:
    """One node of one member: end times of the samples in seconds, figures by name, pauses in training."""

    title: str
    samples: int
    x: Numbers
    figures: dict[str, Numbers]
    pauses: tuple[tuple[float, float], ...]


def utilisation_plot(result: Result, usage: NodeSeries, events: RankEvents) -> Figure:
    """Returns the figure, small multiples of at most eight nodes; the caption states what is omitted."""
    panels = [
        panel
        for member, nodes in usage.items()
        for series in nodes
        if (panel := _panel(member, series, events.get(member, ()), names_node=len(nodes) > 1)) is not None
    ]
    if not panels:
        return Figure(TITLE, NO_SERIES)
    shown = panels[:: -(-len(panels) // MAX_PANELS)]
    columns = 1 if len(shown) == 1 else 2
    height = 2.9 if columns == 1 else 2.1  # of a panel: two parts for shares, one for bytes
    rows = _rows(shown, columns)
    heights = (height * 2 / 3, height / 3) * (len(rows) // 2)
    caption = _caption(result, panels, shown)
    return Figure(TITLE, caption, rows, heights, name=f"{result.run_id} {TITLE}")


def _panel(member: int, series: Sequence[Event], of_rank: Sequence[Event], *, names_node: bool) -> Panel | None:
    start = first_of(UsageStart, series)
    samples = [event for event in series if isinstance(event, Usage) and event.over_s > 0]
    if start is None or not samples:
        return None
    origin_s = samples[0].wall_s - samples[0].over_s
    ends = np.array([sample.wall_s - origin_s for sample in samples])
    figures_of = [_figures(sample, len(parse_cores(start.cores))) for sample in samples]
    figures = {name: np.array([each[name] for each in figures_of], dtype=np.float64) for name in figures_of[0]}
    known = {name: values for name, values in figures.items() if np.isfinite(values).any()}
    title = f"member {member}" + (f", {start.node}" if names_node else "")
    pauses = _pauses(of_rank, origin_s, float(ends[-1]))
    return _binned(Panel(title, len(samples), ends, known, pauses))


def _figures(sample: Usage, num_cores: int) -> dict[str, float | None]:
    """Returns utilisation in percent and traffic in MB/s; None where not sampled."""
    cpu, processes, network = sample.cpu, sample.processes, sample.network
    gpus = [each.utilisation for each in sample.accelerators or ()]
    moved = None if not network else sum(count.received + count.sent for count in network.values())
    per_s = 1 / sample.over_s
    return {
        "busy": None if cpu is None else 100 * cpu.busy,
        "iowait": None if cpu is None else 100 * cpu.iowait,
        "steal": None if cpu is None else 100 * cpu.steal,
        "own": None if processes is None else 100 * processes.cpu_s * per_s / num_cores,
        "gpu": 100 * sum(gpus) / len(gpus) if gpus else None,
        "network": None if moved is None else moved * per_s / 1e6,
        "loopback": None if sample.loopback_bytes is None else sample.loopback_bytes * per_s / 1e6,
    }


def _pauses(of_rank: Sequence[Event], origin_s: float, end_s: float) -> tuple[tuple[float, float], ...]:
    """Returns the spans outside of epochs; an epoch without end lasts to the last sample."""
    stops = {event.epoch: event.epoch_s for event in of_rank if isinstance(event, EpochStop)}
    edges = [0.0]
    for event in of_rank:
        if isinstance(event, EpochStart):
            begin_s = event.wall_s - origin_s
            edges += [begin_s, begin_s + stops[event.epoch] if event.epoch in stops else end_s]
    gaps = zip(edges[::2], [*edges[1::2], end_s], strict=True)
    return tuple((begin, end) for begin, end in gaps if end - begin > MIN_GAP * end_s)


def _binned(panel: Panel) -> Panel:
    """Downsamples to at most MAX_POINTS by averaging adjacent samples."""
    each = -(-len(panel.x) // MAX_POINTS)
    if each == 1:
        return panel
    cuts = range(0, len(panel.x), each)
    ends = np.array([panel.x[cut : cut + each][-1] for cut in cuts])
    figures = {
        name: np.array([_mean(values[cut : cut + each]) for cut in cuts]) for name, values in panel.figures.items()
    }
    return Panel(panel.title, panel.samples, ends, figures, panel.pauses)


def _mean(values: Numbers) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _rows(panels: list[Panel], columns: int) -> tuple[tuple[Plot | None, ...], ...]:
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
            y = _steps(panel.figures[name])
            yield Curve(label, _edges(panel, seconds), y, shape="stairs", colour=colour)


def _edges(panel: Panel, seconds: float) -> Numbers:
    return np.concatenate([[0.0], panel.x]) / seconds


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


def _caption(result: Result, panels: list[Panel], shown: list[Panel]) -> str:
    count, samples = len(panels), sum(panel.samples for panel in panels)
    caption = (
        "Upper: share of the member's cores (and accelerators) that were busy; lower: what passed through the node's "
        "network interfaces, and through its loopback. Time counts from a member's first sample. "
        "Shaded: outside of epochs. "
    )
    for name, label in (("cpu_utilisation", "CPU"), ("gpu_utilisation", "GPU")):
        metric = result.metrics.get(name)
        if metric is not None and metric.value is not None:
            caption += f"Mean while training: {label} {show_value(metric.value, metric.unit)}{_beside(metric)}. "
    caption += f"n = {samples:,} sample{'s' * (samples != 1)} of {count} node{'s' * (count != 1)}."
    if len(shown) < count:
        caption += f" Drawn: {len(shown)} of them, evenly spaced."
    if any(panel.samples > MAX_POINTS for panel in shown):
        caption += f" Lines with more than {MAX_POINTS} samples are averaged over adjacent samples."
    return caption
