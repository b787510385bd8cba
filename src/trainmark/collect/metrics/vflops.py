"""VFLOPS (Eq. 7 and 8): FLOPS weighed by the ensemble's quality against the target."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import flops, quality_ensemble
from trainmark.collect.scores import quality_coefficient, vflops_score
from trainmark.collect.statistics import product_interval
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "higher"
NEEDS = "epochs and predictions"


def compute(measured: Measured) -> Metric:
    """VFLOPS (Eq. 7 and 8): FLOPS weighed by the ensemble's quality against the target."""
    speed, quality = flops.compute(measured), quality_ensemble.compute(measured)
    if speed.value is None or quality.value is None:
        return unavailable(UNIT, BETTER, speed.reason or quality.reason or "")
    evaluate = measured.config.evaluate
    try:
        coefficient = quality_coefficient(quality.value, evaluate.target_quality, evaluate.exponent)
        value = vflops_score(speed.value, quality.value, evaluate.target_quality, evaluate.exponent)
    except OverflowError:
        return unavailable(UNIT, BETTER, "(quality / target)^exponent overflows")
    return Metric(
        value=value,
        unit=UNIT,
        better=BETTER,
        status="derived",
        ci95=product_interval(value, (speed, 1.0), (quality, evaluate.exponent)),
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
