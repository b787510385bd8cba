"""The share of what the machine can do that training got out of it."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import ceiling_flops, flops
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "share"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """FLOPS over the measured ceiling."""
    speed, ceiling = flops.compute(measured), ceiling_flops.compute(measured)
    if speed.value is None or ceiling.value is None:
        return unavailable(UNIT, BETTER, speed.reason or ceiling.reason or "")
    return Metric(
        value=speed.value / ceiling.value,
        unit=UNIT,
        better=BETTER,
        status="derived",
        ci95=None if speed.ci95 is None else (speed.ci95[0] / ceiling.value, speed.ci95[1] / ceiling.value),
        n=speed.n,
        samples_ref=speed.samples_ref,
        convention=speed.convention,
        detail={"ceiling_flops": ceiling.value, **(ceiling.detail or {})},
    )
