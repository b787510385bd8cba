"""The bytes per second of training that a member's node receives and sends, for all processes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.utilisation import Average, Figure, UsageMetric
from trainmark.spec.machine_events import MovedBytes, Usage
from trainmark.spec.result import Better, Metric

UNIT = "B/s"
BETTER: Better = "neither"


def compute(measured: Measured) -> Metric:
    """The bytes per second of training that a member's node receives and sends, for all processes."""
    both = _rate(lambda count: count.received + count.sent)
    return UsageMetric(UNIT, BETTER, "network", both, _mean_of_nodes, _figures).compute(measured)


def _mean_of_nodes(found: list[Average]) -> float:
    return float(np.mean([each.mean for each in found]))


def _figures(average: Average) -> dict[str, Any]:
    return {
        "interfaces": average.usage.start.interfaces,
        "received_bytes_per_s": average.mean_of(_rate(lambda count: count.received)),
        "sent_bytes_per_s": average.mean_of(_rate(lambda count: count.sent)),
        "most_bytes_per_s": average.most,
        "loopback_bytes_per_s": average.mean_of(_loopback),
    }


def _rate(moved: Callable[[MovedBytes], int]) -> Figure:
    """Bytes per second by all interfaces; None where none leads out of the node."""

    def figure(sample: Usage) -> float | None:
        return sum(moved(count) for count in sample.network.values()) / sample.over_s if sample.network else None

    return figure


def _loopback(sample: Usage) -> float | None:
    return None if sample.loopback_bytes is None else sample.loopback_bytes / sample.over_s
