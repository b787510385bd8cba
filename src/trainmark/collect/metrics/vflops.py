"""VFLOPS (Eq. 7 and 8): FLOPS weighed by the ensemble's quality against the target."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import flops, quality_ensemble
from trainmark.collect.scores import quality_coefficient
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "higher"


def compute(measured: Measured) -> Metric:
    """VFLOPS (Eq. 7 and 8): FLOPS weighed by the ensemble's quality against the target."""
    speed, quality = flops.compute(measured), quality_ensemble.compute(measured)
    if speed.value is None or quality.value is None:
        return unavailable(UNIT, BETTER, speed.reason or quality.reason or "")
    evaluate = measured.config.evaluate
    coefficient = quality_coefficient(quality.value, evaluate.target_quality, evaluate.exponent)
    return Metric(
        value=coefficient * speed.value,
        unit=UNIT,
        better=BETTER,
        status="derived",
        ci95=None if speed.ci95 is None else (coefficient * speed.ci95[0], coefficient * speed.ci95[1]),
        n=speed.n,
        samples_ref=speed.samples_ref,
        convention=speed.convention,
        exponent=evaluate.exponent,
        detail={
            "coefficient": coefficient,
            "quality": quality.value,
            "target_quality": evaluate.target_quality,
        },
    )
