"""FLOPS of the ensemble in steady state: its throughput times the training FLOPs of a sample."""

from typing import Any

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import flops, throughput_samples_per_s
from trainmark.collect.warm_up import cost_of_warm_up
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "higher"
NEEDS = "epochs"  # which tell the cost of warm-up


def compute(measured: Measured) -> Metric:
    """FLOPS of the ensemble in steady state: its throughput times the training FLOPs of a sample."""
    rate, whole = throughput_samples_per_s.compute(measured), flops.compute(measured)
    if rate.value is None or whole.value is None:
        return unavailable(UNIT, BETTER, rate.reason or whole.reason or "")
    assert whole.detail is not None
    per_sample: dict[str, float] = whole.detail["training_flop_per_sample"]
    flop = per_sample[flops.CONVENTION]
    return Metric(
        value=rate.value * flop,
        unit=UNIT,
        better=BETTER,
        status="derived",
        ci95=None if rate.ci95 is None else (rate.ci95[0] * flop, rate.ci95[1] * flop),
        n=rate.n,
        samples_ref=rate.samples_ref,
        convention=flops.CONVENTION,
        detail={
            "by_convention": {name: rate.value * each for name, each in per_sample.items()},
            **_compared(measured, whole.value / (rate.value * flop)),
        },
    )


def _compared(measured: Measured, whole_share: float) -> dict[str, Any]:
    """How far the FLOPS of the whole training are from these, and what makes the difference."""
    costs = [cost_of_warm_up(member) for member in measured.finished]
    longest = max(costs, key=lambda cost: cost.warmup_s)
    epochs = [cost.epochs_until_negligible for cost in costs]
    return {
        "whole_training_share": whole_share,
        "warmup_s": longest.warmup_s,
        "training_s": longest.training_s,
        "between_steps_s": float(np.mean([cost.between_steps_s for cost in costs])),
        "epochs_until_negligible": None if None in epochs else max(each for each in epochs if each is not None),
        "epoch_s": longest.epoch_s,
    }
