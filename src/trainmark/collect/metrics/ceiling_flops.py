"""What the cores or accelerators in use can do: the best of several kernels, just before training."""

import statistics
from collections import defaultdict

from trainmark.collect.measured import Measured
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "neither"


def compute(measured: Measured) -> Metric:
    """What the cores or accelerators in use can do: the best of several kernels, just before training."""
    if not measured.config.measure.ceiling:
        return unavailable(UNIT, BETTER, "not measured: measure.ceiling is false")
    of_lanes: dict[int, list[float]] = defaultdict(list)
    kernels: dict[str, int] = defaultdict(int)
    for member in measured.members:
        if not member.events:
            continue
        found = [member.one("ceiling", rank.rank) for rank in member.job.ranks]
        ceilings = [event for event in found if event is not None]
        if len(ceilings) == len(found):
            of_lanes[member.job.lane].append(sum(event["flops"] for event in ceilings))
            for event in ceilings:
                kernels[event["kernel"]] += 1
    if len(of_lanes) < len({member.job.lane for member in measured.members}):
        return unavailable(UNIT, BETTER, "the ceiling was not measured on every lane")
    return Metric(
        value=sum(statistics.median(values) for values in of_lanes.values()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=sum(len(values) for values in of_lanes.values()),
        samples_ref=measured.samples_ref,
        detail={
            "precision": measured.config.train.precision,
            "kernel": max(kernels, key=lambda name: kernels[name]),
            "kernels_that_won": dict(kernels),
            "lanes": len(of_lanes),
        },
    )
