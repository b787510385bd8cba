"""The bytes per second of training that a member's node receives and sends, for all processes."""

from typing import Any

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.utilisation import Average, Figure, UsageMetric
from trainmark.spec.event import Event
from trainmark.spec.result import Better, Metric

UNIT = "B/s"
BETTER: Better = "neither"


def compute(measured: Measured) -> Metric:
    """The bytes per second of training that a member's node receives and sends, for all processes."""
    both = _rate("received", "sent")
    return UsageMetric(UNIT, BETTER, "network", both, _mean_of_nodes, _figures).compute(measured)


def _mean_of_nodes(found: list[Average]) -> float:
    return float(np.mean([each.mean for each in found]))


def _figures(average: Average) -> dict[str, Any]:
    return {
        "interfaces": average.usage.start["interfaces"],
        "received_bytes_per_s": average.mean_of(_rate("received")),
        "sent_bytes_per_s": average.mean_of(_rate("sent")),
        "most_bytes_per_s": average.most,
        "loopback_bytes_per_s": average.mean_of(_loopback),
    }


def _rate(*ways: str) -> Figure:
    """Bytes per second by all interfaces; None where none leads out of the node."""

    def figure(sample: Event) -> float | None:
        if not sample["network"]:
            return None
        return float(sum(count[way] for count in sample["network"].values() for way in ways) / sample["over_s"])

    return figure


def _loopback(sample: Event) -> float | None:
    return None if sample["loopback_bytes"] is None else float(sample["loopback_bytes"] / sample["over_s"])
