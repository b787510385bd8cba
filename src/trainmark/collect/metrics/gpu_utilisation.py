"""The share of training time in which the members' accelerators ran a kernel."""

from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.utilisation import Average, Figure, UsageMetric, mean_over
from trainmark.spec.event import Event
from trainmark.spec.result import Better, Metric

UNIT = "share"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The share of training time in which the members' accelerators ran a kernel, as NVIDIA's driver reports it."""
    busy = _mean("utilisation")
    return UsageMetric(UNIT, BETTER, "accelerators", busy, _mean_accelerator, _figures).compute(measured)


def _mean_accelerator(found: list[Average]) -> float:
    return mean_over(found, lambda usage: len(usage.start["accelerators"]))


def _figures(average: Average) -> dict[str, Any]:
    """The mean accelerator of a node."""
    return {
        "accelerators": len(average.usage.start["accelerators"]),
        "utilisation": average.mean,
        "memory_bytes": average.mean_of(_mean("memory_bytes")),
        "power_w": average.mean_of(_mean("power_w")),
    }


def _mean(name: str) -> Figure:
    """The mean over the accelerators of a sample; None where it holds none, or one that does not tell."""

    def figure(sample: Event) -> float | None:
        values = [each[name] for each in sample.get("accelerators") or ()]
        return None if not values or None in values else sum(values) / len(values)

    return figure
