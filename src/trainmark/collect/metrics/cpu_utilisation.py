"""The share of training time in which the members' own processes kept their cores busy."""

from collections.abc import Callable
from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.node_usage import NodeUsage
from trainmark.collect.utilisation import Average, Figure, UsageMetric, mean_over
from trainmark.spec.machine_events import CpuUse, Usage
from trainmark.spec.result import Better, Metric
from trainmark.spec.units import parse_cores, show_value

UNIT = "share"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The share of training time in which the members' own processes kept their cores busy."""
    own = UsageMetric(UNIT, BETTER, "processes", _own_cores, _share_of_cores, _figures).compute(measured)
    if own.value is None:
        return own
    total = UsageMetric(UNIT, BETTER, "cpu", _busy_share, _mean_core, _figures).compute(measured)
    assert own.detail is not None
    others = "not known" if total.value is None else show_value(total.value, UNIT)
    note = f"by the members' own processes; by all processes: {others}"
    return own.model_copy(update={"detail": {"own": own.value, "total": total.value, "note": note, **own.detail}})


def _share_of_cores(found: list[Average]) -> float:
    cores_s = sum(each.seconds * _num_cores(each.usage) for each in found)
    return sum(each.mean * each.seconds for each in found) / cores_s


def _mean_core(found: list[Average]) -> float:
    return mean_over(found, _num_cores)


def _figures(average: Average) -> dict[str, Any]:
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


def _share(figure: Callable[[CpuUse], float]) -> Figure:
    return lambda sample: None if sample.cpu is None else figure(sample.cpu)


def _busy_share(sample: Usage) -> float | None:
    """The share of the member's cores that were busy with anyone's work."""
    return None if sample.cpu is None else sample.cpu.busy


def _own_cores(sample: Usage) -> float | None:
    """How many cores the member's processes, those that read data among them, kept busy."""
    return None if sample.processes is None else sample.processes.cpu_s / sample.over_s


def _num_cores(usage: NodeUsage) -> int:
    return len(parse_cores(usage.start.cores))
