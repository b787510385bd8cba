"""The share of what the machine can do that settled training got out of it."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import ceiling_flops, flops_steady
from trainmark.collect.statistics import product_interval
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "higher"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The share of what the machine can do that settled training got out of it: steady FLOPS over the ceiling."""
    speed, ceiling = flops_steady.compute(measured), ceiling_flops.compute(measured)
    if speed.value is None or ceiling.value is None:
        return unavailable(UNIT, BETTER, speed.reason or ceiling.reason or "")
    value = speed.value / ceiling.value
    factors = [(speed, 1.0), *([(ceiling, -1.0)] if ceiling.ci95 else [])]
    return Metric(
        value=value,
        unit=UNIT,
        better=BETTER,
        status="derived",
        ci95=product_interval(value, *factors),
        n=speed.n,
        samples_ref=speed.samples_ref,
        convention=speed.convention,
        detail={**(ceiling.detail or {}), "flops_steady": speed.value, "ceiling_flops": ceiling.value},
    )
