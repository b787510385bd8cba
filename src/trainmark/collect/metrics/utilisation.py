"""What members used of their nodes while they trained: cores, accelerators, network and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.measured import NO_MEMBER, Measured, Member, NodeUsage
from trainmark.spec.machine_events import AcceleratorUse, CpuUse, Memory, MovedBytes, Usage
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.units import parse_cores, show_value

SWITCHED_OFF = "not measured: measure.usage_seconds is 0"

Numbers = NDArray[np.float64]
OfSample = Callable[[Usage], float | None]  # a figure of one sample; None where it does not tell


@dataclass(frozen=True)
class Average:
    """A figure of one node of a member: its mean and its largest value while the member trained."""

    member: Member
    usage: NodeUsage
    mean: float
    most: float
    seconds: float
    samples: int

    def mean_of(self, figure: OfSample) -> float | None:
        """The mean of another figure of the same node and time."""
        other = _over_training(self.member, self.usage, figure)
        return None if other is None else other.mean

    def entry(self, figures: dict[str, Any]) -> dict[str, Any]:
        """How the node stands in a metric's detail."""
        place = {"member": self.member.job.member, "node": self.usage.node}
        return {**place, **figures, "samples": self.samples, "series": self.usage.file}


def _averages(measured: Measured, figure: OfSample, part: str) -> list[Average] | str:
    """A figure of every node of every finished member; in its place the reason why one has none.

    `part` is the part of a sample that the figure is made of.
    """
    if not measured.finished:
        return NO_MEMBER
    if measured.config.measure.usage_seconds == 0:
        return SWITCHED_OFF
    found = []
    for member in measured.finished:
        if len(member.usage) < len(member.job.nodes):
            return f"member {member.job.member} left no series of utilisation for each of its nodes"
        for usage in member.usage:
            average = _over_training(member, usage, figure)
            if average is None:
                return _reason(member, usage, part)
            found.append(average)
    return found


def _mean_over(found: list[Average], weigh: Callable[[NodeUsage], float]) -> float:
    """The mean over nodes, each weighed by its time and by how much of something it has."""
    weights = [each.seconds * weigh(each.usage) for each in found]
    return sum(each.mean * weight for each, weight in zip(found, weights, strict=True)) / sum(weights)


def _over_training(member: Member, usage: NodeUsage, figure: OfSample) -> Average | None:
    """Each sample is weighed by how much of it is inside an epoch, after warm-up if any is; None: none at all."""
    figures = [(figure(sample), sample.wall_s - sample.over_s, sample.wall_s) for sample in usage.samples]
    known = np.array([each for each in figures if each[0] is not None], dtype=np.float64).reshape(-1, 3)
    spans = member.training_spans(usage.rank)
    weights = _overlaps(known[:, 1:], _without_first(spans, member.warmup_s))
    if not (weights > 0).any():  # so short that there is hardly more than warm-up
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


def _without_first(spans: list[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """What is left of the spans, one after another, when their first `seconds` are cut off."""
    left = []
    for start, stop in spans:
        cut = min(seconds, stop - start)
        seconds -= cut
        if start + cut < stop:
            left.append((start + cut, stop))
    return left


def _overlaps(intervals: Numbers, spans: list[tuple[float, float]]) -> Numbers:
    """The length of each interval that is inside one of the spans."""
    seconds = np.zeros(len(intervals))
    for start, stop in spans:
        seconds += np.clip(np.minimum(intervals[:, 1], stop) - np.maximum(intervals[:, 0], start), 0, None)
    return seconds


def _reason(member: Member, usage: NodeUsage, part: str) -> str:
    told = [usage.start.unavailable, *(sample.unavailable for sample in usage.samples)]
    reason = next((reasons[part] for reasons in told if part in reasons), None)
    return reason or f"no sample of {part} of member {member.job.member} on {usage.node} falls into its training time"


def _figure_of(found: list[Average], value: float, figures: Callable[[Average], dict[str, Any]]) -> Figure:
    """A figure with what stands beside it of each node."""
    detail = {"nodes": [each.entry(figures(each)) for each in found]}
    return Figure(value, n=sum(each.samples for each in found), detail=detail)


def _cpu(measured: Measured) -> Figure | str:
    own = _averages(measured, _own_cores, "processes")
    if isinstance(own, str):
        return own
    value = sum(each.mean * each.seconds for each in own) / sum(each.seconds * _num_cores(each.usage) for each in own)
    total = _averages(measured, _busy_share, "cpu")
    by_all = None if isinstance(total, str) else _mean_over(total, _num_cores)
    others = "not known" if by_all is None else show_value(by_all, CPU.unit)
    figure = _figure_of(own, value, _of_cores)
    note = f"by the members' own processes; by all processes: {others}"
    return figure._replace(detail={"own": value, "total": by_all, "note": note, **(figure.detail or {})})


def _of_cores(average: Average) -> dict[str, Any]:
    """What the member's processes used of a node's cores, what those did in all, and how busy the whole node was."""
    own = average.mean_of(_own_cores)
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
    """The share of the member's cores that were busy with anyone's work."""
    return None if sample.cpu is None else sample.cpu.busy


def _own_cores(sample: Usage) -> float | None:
    """How many cores the member's processes, those that read data among them, kept busy."""
    return None if sample.processes is None else sample.processes.cpu_s / sample.over_s


def _num_cores(usage: NodeUsage) -> int:
    return len(parse_cores(usage.start.cores))


CPU = MetricRow(
    "cpu_utilisation",
    "share",
    "higher",
    "CPU utilisation",
    description="The share of training time in which the members' own processes kept their cores busy.",
    compute=_cpu,
)


def _gpu(measured: Measured) -> Figure | str:
    found = _averages(measured, _mean_accelerator(lambda each: each.utilisation), "accelerators")
    if isinstance(found, str):
        return found
    return _figure_of(found, _mean_over(found, lambda usage: len(usage.start.accelerators)), _of_accelerators)


def _of_accelerators(average: Average) -> dict[str, Any]:
    """The mean accelerator of a node."""
    return {
        "accelerators": len(average.usage.start.accelerators),
        "utilisation": average.mean,
        "memory_bytes": average.mean_of(_mean_accelerator(lambda each: each.memory_bytes)),
        "power_w": average.mean_of(_mean_accelerator(lambda each: each.power_w)),
    }


def _mean_accelerator(figure: Callable[[AcceleratorUse], float | None]) -> OfSample:
    """The mean over the accelerators of a sample; None where it holds none, or one that does not tell."""

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
    """Bytes per second by all interfaces; None where none leads out of the node."""

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
    description="The bytes per second of training that a member's node receives and sends, for all processes.",
    compute=_network,
    hide_if_unavailable=True,
)


def _peak_memory(measured: Measured) -> Figure | str:
    ranks = [(member, rank.rank) for member in measured.finished for rank in member.job.ranks]
    events = [event for member, rank in ranks if (event := member.one(Memory, rank))]
    if not events:
        return NO_MEMBER
    on_device = [event.device_bytes for event in events if event.device_bytes is not None]
    resident = [event.resident_bytes for event in events]
    where = {"where": "accelerator" if on_device else "host", "resident_bytes": resident}
    return Figure(max(on_device or resident), n=len(events), detail=where)


PEAK_MEMORY = MetricRow(
    "peak_memory_bytes",
    "B",
    "lower",
    "peak memory per worker",
    description="The largest peak of memory of any worker: on its accelerator, else resident in the host.",
    compute=_peak_memory,
    needs="finished members",
    per_member=True,
    member_heading="peak memory",
)
