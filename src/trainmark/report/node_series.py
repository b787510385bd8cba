"""Utilisation of a node over time as numbers to draw: percent, memory, traffic, and pauses in training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.report.plots import RankEvents
from trainmark.spec.event_files import first_of
from trainmark.spec.events import EpochStart, EpochStop, Event
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.units import parse_cores

MAX_POINTS = 600  # per line; a panel is about 350 pixels wide
MIN_GAP = 1 / 500  # of a panel's width: shorter pauses are invisible

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
    begin_s: float = 0.0  # of the first sample

    def as_record(self) -> dict[str, Any]:
        """Returns the panel as plain values for JSON, to four digits; what was not sampled is None."""
        return {
            "title": self.title,
            "samples": self.samples,
            "x": self.x.tolist(),
            "figures": {name: [_four_digits(value) for value in y.tolist()] for name, y in self.figures.items()},
            "pauses": [list(pause) for pause in self.pauses],
            "begin_s": self.begin_s,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "Panel":
        """Returns the panel of plain values."""
        return cls(
            title=record["title"],
            samples=record["samples"],
            x=np.array(record["x"], np.float64),
            figures={name: np.array(values, np.float64) for name, values in record["figures"].items()},
            pauses=tuple((begin, end) for begin, end in record["pauses"]),
            begin_s=record["begin_s"],
        )


def _four_digits(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def panels_of(usage: NodeSeries, events: RankEvents, origin_s: float | None = None) -> list[Panel]:
    """Returns a panel per node that has samples; time counts from `origin_s`, else from each node's first sample."""
    return [
        panel
        for member, nodes in usage.items()
        for series in nodes
        if (panel := _panel(f"member {member}", series, events.get(member, ()), len(nodes) > 1, origin_s)) is not None
    ]


def first_sample_s(usage: NodeSeries) -> float | None:
    """Returns when the first sample of any node began; None without samples."""
    series = [_samples(each) for nodes in usage.values() for each in nodes]
    return min((samples[0].wall_s - samples[0].over_s for samples in series if samples), default=None)


def _samples(series: Iterable[Event]) -> list[Usage]:
    return [event for event in series if isinstance(event, Usage) and event.over_s > 0]


def _panel(
    title: str, series: Sequence[Event], of_rank: Sequence[Event], names_node: bool, origin_s: float | None
) -> Panel | None:
    start, samples = first_of(UsageStart, series), _samples(series)
    if start is None or not samples:
        return None
    begin_s = samples[0].wall_s - samples[0].over_s
    origin_s = begin_s if origin_s is None else origin_s
    ends = np.array([sample.wall_s - origin_s for sample in samples])
    figures_of = [_figures(sample, len(parse_cores(start.cores))) for sample in samples]
    figures = {name: np.array([each[name] for each in figures_of], dtype=np.float64) for name in figures_of[0]}
    known = {name: values for name, values in figures.items() if np.isfinite(values).any()}
    pauses = _pauses(of_rank, origin_s, begin_s - origin_s, float(ends[-1]))
    name = title + (f", {start.node}" if names_node else "")
    return _binned(Panel(name, len(samples), ends, known, pauses, begin_s - origin_s))


def _figures(sample: Usage, num_cores: int) -> dict[str, float | None]:
    """Returns utilisation in percent, memory in GiB and traffic in MB/s; None where not sampled."""
    cpu, processes, network = sample.cpu, sample.processes, sample.network
    gpus = sample.accelerators or ()
    moved = None if not network else sum(count.received + count.sent for count in network.values())
    resident = None if processes is None else processes.resident_bytes
    per_s = 1 / sample.over_s
    return {
        "busy": None if cpu is None else 100 * cpu.busy,
        "iowait": None if cpu is None else 100 * cpu.iowait,
        "steal": None if cpu is None else 100 * cpu.steal,
        "own": None if processes is None else 100 * processes.cpu_s * per_s / num_cores,
        "gpu": 100 * sum(each.utilisation for each in gpus) / len(gpus) if gpus else None,
        "memory": None if resident is None else resident / 2**30,
        "gpu_memory": sum(each.memory_bytes for each in gpus) / len(gpus) / 2**30 if gpus else None,
        "network": None if moved is None else moved * per_s / 1e6,
        "loopback": None if sample.loopback_bytes is None else sample.loopback_bytes * per_s / 1e6,
    }


def _pauses(of_rank: Sequence[Event], origin_s: float, begin_s: float, end_s: float) -> tuple[tuple[float, float], ...]:
    """Returns the spans outside of epochs; an epoch without end lasts to the last sample."""
    stops = {event.epoch: event.epoch_s for event in of_rank if isinstance(event, EpochStop)}
    edges = [begin_s]
    for event in of_rank:
        if isinstance(event, EpochStart):
            start_s = event.wall_s - origin_s
            edges += [start_s, start_s + stops[event.epoch] if event.epoch in stops else end_s]
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
    return Panel(panel.title, panel.samples, ends, figures, panel.pauses, panel.begin_s)


def _mean(values: Numbers) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
