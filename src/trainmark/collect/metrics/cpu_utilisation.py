"""The share of training time in which the members' cores were busy, with work of any process."""

from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.node_usage import NodeUsage
from trainmark.collect.utilisation import Average, Figure, UsageMetric, mean_over
from trainmark.spec.event import Event
from trainmark.spec.result import Better, Metric
from trainmark.spec.units import parse_cores

UNIT = "share"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The share of training time in which the members' cores were busy, with work of any process."""
    busy = _share("user", "system")
    return UsageMetric(UNIT, BETTER, "cpu", busy, _mean_core, _figures).compute(measured)


def _mean_core(found: list[Average]) -> float:
    return mean_over(found, _num_cores)


def _figures(average: Average) -> dict[str, Any]:
    """What a node's cores did, the part of it that was the member's own, and how busy the whole node was."""
    own = average.mean_of(_own_cores)
    return {
        "utilisation": average.mean,
        **{kind: average.mean_of(_share(kind)) for kind in ("user", "system", "iowait", "steal")},
        "own": None if own is None else own / _num_cores(average.usage),
        "whole_node": average.mean_of(_share("user", "system", of="node_cpu")),
    }


def _share(*kinds: str, of: str = "cpu") -> Figure:
    return lambda sample: None if sample[of] is None else float(sum(sample[of][kind] for kind in kinds))


def _own_cores(sample: Event) -> float | None:
    """How many cores the member's processes kept busy."""
    return None if sample["processes"] is None else float(sample["processes"]["cpu_s"] / sample["over_s"])


def _num_cores(usage: NodeUsage) -> int:
    return len(parse_cores(usage.start["cores"]))
