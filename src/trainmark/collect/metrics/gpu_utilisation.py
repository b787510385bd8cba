"""The share of training time in which the members' accelerators ran a kernel."""

from collections.abc import Callable
from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.utilisation import Average, Figure, UsageMetric, mean_over
from trainmark.spec.machine_events import AcceleratorUse, Usage
from trainmark.spec.result import Better, Metric

UNIT = "share"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """The share of training time in which the members' accelerators ran a kernel, as NVIDIA's driver reports it."""
    busy = _mean(lambda each: each.utilisation)
    return UsageMetric(UNIT, BETTER, "accelerators", busy, _mean_accelerator, _figures).compute(measured)


def _mean_accelerator(found: list[Average]) -> float:
    return mean_over(found, lambda usage: len(usage.start.accelerators))


def _figures(average: Average) -> dict[str, Any]:
    """The mean accelerator of a node."""
    return {
        "accelerators": len(average.usage.start.accelerators),
        "utilisation": average.mean,
        "memory_bytes": average.mean_of(_mean(lambda each: each.memory_bytes)),
        "power_w": average.mean_of(_mean(lambda each: each.power_w)),
    }


def _mean(figure: Callable[[AcceleratorUse], float | None]) -> Figure:
    """The mean over the accelerators of a sample; None where it holds none, or one that does not tell."""

    def mean(sample: Usage) -> float | None:
        values = [figure(each) for each in sample.accelerators or ()]
        known = [value for value in values if value is not None]
        return None if not values or len(known) < len(values) else sum(known) / len(known)

    return mean
