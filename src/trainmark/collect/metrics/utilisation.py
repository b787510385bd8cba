"""Utilisation of the members' nodes during training: cores, accelerators, network and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.measured import NO_MEMBER, Measured, Member, NodeUsage
from trainmark.spec.machine_events import AcceleratorUse, CpuUse, MovedBytes, Usage
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.units import parse_cores, show_value

DISABLED = "not measured: measure.usage_seconds is 0"

Numbers = NDArray[np.float64]
OfSample = Callable[[Usage], float | None]  # a figure of one sample; None if unavailable


@dataclass(frozen=True)
class Average:
    """A figure of one of a member's nodes: mean and maximum during training."""

    member: Member
    usage: NodeUsage
    mean: float
    most: float
    seconds: float
    samples: int

    def mean_of(self, figure: OfSample) -> float | None:
        """Returns the mean of another figure of the same node and time."""
        other = _over_training(self.member, self.usage, figure)
        return None if other is None else other.mean

    def entry(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Returns the node's entry in a metric's detail."""
        place = {"member": self.member.job.member, "node": self.usage.node}
        return {**place, **figures, "samples": self.samples, "series": self.usage.file}


def _averages(measured: Measured, figure: OfSample, part: str) -> list[Average] | str:
    """Averages a figure on every node of every finished member; returns the reason if one has none.

    `part` is the part of a sample that the figure is from.
    """
    if not measured.finished:
        return NO_MEMBER
    if measured.config.measure.usage_seconds == 0:
        return DISABLED
    found = []
    for member in measured.finished:
        if len(member.usage) < len(member.job.nodes):
            return f"member {member.job.member} has no utilisation series for some of its nodes"
        for usage in member.usage:
            average = _over_training(member, usage, figure)
            if average is None:
                return _reason(member, usage, part)
            found.append(average)
    return found


def _mean_over(found: list[Average], weigh: Callable[[NodeUsage], float]) -> float:
    """Returns the mean over nodes, weighted by time and `weigh`."""
    weights = [each.seconds * weigh(each.usage) for each in found]
    return sum(each.mean * weight for each, weight in zip(found, weights, strict=True)) / sum(weights)


def _over_training(member: Member, usage: NodeUsage, figure: OfSample) -> Average | None:
    """Averages samples weighted by their overlap with epochs, after warm-up if possible; None: no overlap."""
    figures = [(figure(sample), sample.wall_s - sample.over_s, sample.wall_s) for sample in usage.samples]
    known = np.array([each for each in figures if each[0] is not None], dtype=np.float64).reshape(-1, 3)
    spans = member.training_spans(usage.rank)
    weights = _overlaps(known[:, 1:], _without_first(spans, member.warmup_s))
    if not (weights > 0).any():  # short run: hardly more than warm-up
        weights = _overlaps(known[:, 1:], spans)
    inside = weights > 0
    if not inside.any():
        return None
    values, weights = known[inside, 0], weights[inside]
    return Average(
        member=member,
        usage=usage,
        mean=float(np.average(values, weights=weights)),
        most=float(values.max()),
        seconds=float(weights.sum()),
        samples=len(values),
    )


def node_averages(member: Member, usage: NodeUsage) -> dict[str, Average]:
    """Returns each figure of one of a member's nodes that was sampled: shares, bytes, bytes per second."""
    figures: dict[str, OfSample] = {
        "cpu": lambda sample: None if (cores := _member_cores(sample)) is None else cores / _num_cores(usage),
        "gpu": _mean_accelerator(lambda each: each.utilisation),
        "memory": lambda sample: None if sample.processes is None else sample.processes.resident_bytes,
        "gpu_memory": _mean_accelerator(lambda each: each.memory_bytes),
        "network": _rate(lambda count: count.received + count.sent),
        "loopback": _loopback,
    }
    found = {name: _over_training(member, usage, figure) for name, figure in figures.items()}
    return {name: average for name, average in found.items() if average is not None}


def _without_first(spans: list[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """Returns the spans without their first `seconds` in total."""
    left = []
    for start, stop in spans:
        cut = min(seconds, stop - start)
        seconds -= cut
        if start + cut < stop:
            left.append((start + cut, stop))
    return left


def _overlaps(intervals: Numbers, spans: list[tuple[float, float]]) -> Numbers:
    """Returns the length of each interval inside the spans."""
    seconds = np.zeros(len(intervals))
    for start, stop in spans:
        seconds += np.clip(np.minimum(intervals[:, 1], stop) - np.maximum(intervals[:, 0], start), 0, None)
    return seconds


def _reason(member: Member, usage: NodeUsage, part: str) -> str:
    recorded = [usage.start.unavailable, *(sample.unavailable for sample in usage.samples)]
    reason = next((reasons[part] for reasons in recorded if part in reasons), None)
    return reason or f"no sample of {part} of member {member.job.member} on {usage.node} is within its training time"


def _figure_of(found: list[Average], value: float, figures: Callable[[Average], dict[str, Any]]) -> Figure:
    """Returns the figure with an entry per node in its detail."""
    detail = {"nodes": [each.entry(figures(each)) for each in found]}
    return Figure(value, n=sum(each.samples for each in found), detail=detail)


def _cpu(measured: Measured) -> Figure | str:
    by_member = _averages(measured, _member_cores, "processes")
    if isinstance(by_member, str):
        return by_member
    core_s = sum(each.seconds * _num_cores(each.usage) for each in by_member)
    value = sum(each.mean * each.seconds for each in by_member) / core_s
    total = _averages(measured, _busy_share, "cpu")
    by_all = None if isinstance(total, str) else _mean_over(total, _num_cores)
    by_all_text = "unknown" if by_all is None else show_value(by_all, CPU.unit)
    figure = _figure_of(by_member, value, _of_cores)
    note = f"by the members' processes; by all processes: {by_all_text}"
    return figure._replace(detail={"own": value, "total": by_all, "note": note, **(figure.detail or {})})


def _of_cores(average: Average) -> dict[str, Any]:
    """Returns the utilisation of the member's cores by its processes and by all, and of the whole node."""
    own = average.mean_of(_member_cores)
    return {
        "own": None if own is None else own / _num_cores(average.usage),
        "total": average.mean_of(_busy_share),
        "user": average.mean_of(_share(lambda cpu: cpu.user)),
        "system": average.mean_of(_share(lambda cpu: cpu.system)),
        "iowait": average.mean_of(_share(lambda cpu: cpu.iowait)),
        "steal": average.mean_of(_share(lambda cpu: cpu.steal)),
        "whole_node": average.mean_of(lambda sample: None if sample.node_cpu is None else sample.node_cpu.busy),
    }


def _share(figure: Callable[[CpuUse], float]) -> OfSample:
    return lambda sample: None if sample.cpu is None else figure(sample.cpu)


def _busy_share(sample: Usage) -> float | None:
    """Returns the utilisation of the member's cores by all processes."""
    return None if sample.cpu is None else sample.cpu.busy


def _member_cores(sample: Usage) -> float | None:
    """Returns the number of cores that the member's processes, including data loading, kept busy."""
    return None if sample.processes is None else sample.processes.cpu_s / sample.over_s


def _num_cores(usage: NodeUsage) -> int:
    return len(parse_cores(usage.start.cores))


CPU = MetricRow(
    "cpu_utilisation",
    "share",
    "higher",
    "CPU utilisation",
    description="The share of training time in which the members' processes kept their cores busy.",
    compute=_cpu,
)


def _gpu(measured: Measured) -> Figure | str:
    found = _averages(measured, _mean_accelerator(lambda each: each.utilisation), "accelerators")
    if isinstance(found, str):
        return found
    return _figure_of(found, _mean_over(found, lambda usage: len(usage.start.accelerators)), _of_accelerators)


def _of_accelerators(average: Average) -> dict[str, Any]:
    """Returns the mean over a node's accelerators."""
    return {
        "accelerators": len(average.usage.start.accelerators),
        "utilisation": average.mean,
        "memory_bytes": average.mean_of(_mean_accelerator(lambda each: each.memory_bytes)),
        "power_w": average.mean_of(_mean_accelerator(lambda each: each.power_w)),
    }


def _mean_accelerator(figure: Callable[[AcceleratorUse], float | None]) -> OfSample:
    """Returns the mean over a sample's accelerators; None if there is none, or one lacks the figure."""

    def mean(sample: Usage) -> float | None:
        values = [figure(each) for each in sample.accelerators or ()]
        known = [value for value in values if value is not None]
        return None if not values or len(known) < len(values) else sum(known) / len(known)

    return mean


GPU = MetricRow(
    "gpu_utilisation",
    "share",
    "higher",
    "GPU utilisation",
    description="The share of training time in which the members' accelerators ran a kernel, by NVIDIA's driver.",
    compute=_gpu,
    hide_if_unavailable=True,
)


def _network(measured: Measured) -> Figure | str:
    found = _averages(measured, _rate(lambda count: count.received + count.sent), "network")
    if isinstance(found, str):
        return found
    return _figure_of(found, float(np.mean([each.mean for each in found])), _of_network)


def _of_network(average: Average) -> dict[str, Any]:
    return {
        "interfaces": average.usage.start.interfaces,
        "received_bytes_per_s": average.mean_of(_rate(lambda count: count.received)),
        "sent_bytes_per_s": average.mean_of(_rate(lambda count: count.sent)),
        "most_bytes_per_s": average.most,
        "loopback_bytes_per_s": average.mean_of(_loopback),
    }


def _rate(moved: Callable[[MovedBytes], int]) -> OfSample:
    """Bytes per second through all external interfaces; None if there is none."""

    def figure(sample: Usage) -> float | None:
        return sum(moved(count) for count in sample.network.values()) / sample.over_s if sample.network else None

    return figure


def _loopback(sample: Usage) -> float | None:
    return None if sample.loopback_bytes is None else sample.loopback_bytes / sample.over_s


NETWORK = MetricRow(
    "network_bytes_per_s",
    "B/s",
    "neither",
    "node network traffic",
    description="The bytes per second of training that a member's node sends and receives, for all processes.",
    compute=_network,
    hide_if_unavailable=True,
)
