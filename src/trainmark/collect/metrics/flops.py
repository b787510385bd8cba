"""FLOPS of the ensemble (Eq. 6): all members' training FLOPs over the time of their epochs."""

from collections import defaultdict

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.collect.scores import flops_score
from trainmark.collect.statistics import rate_interval
from trainmark.spec.events import SampleFlops
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "higher"
NEEDS = "epochs"
CONVENTION = "exact"


def compute(measured: Measured) -> Metric:
    """FLOPS of the ensemble (Eq. 6): all members' training FLOPs over the time of their epochs."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    samples = sum(epoch.samples for member in measured.finished for epoch in member.epochs)
    counts = measured.finished[0].flop_counts()
    of_members = [member.training_flop_per_sample() for member in measured.finished]
    per_sample = {name: float(np.mean([of_member[name] for of_member in of_members])) for name in counts}
    proposals = float(np.mean([member.proposals_per_image for member in measured.finished]))
    values = {name: flops_score(flop, samples, measured.training_s) for name, flop in per_sample.items()}
    of_epochs = _epoch_flops(measured, per_sample[CONVENTION])
    return Metric(
        value=values[CONVENTION],
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=rate_interval(of_epochs),
        n=len(of_epochs),
        samples_ref=measured.samples_ref,
        convention=CONVENTION,
        detail={
            "by_convention": values,
            "training_flop_per_sample": per_sample,
            "operators": {name: _operators(count, proposals) for name, count in counts.items()},
            "proposals_per_image": proposals,
            "samples": samples,
            "training_s": measured.training_s,
        },
    )


def _operators(count: SampleFlops, proposals: float) -> dict[str, float]:
    """Training FLOPs per sample by operator, a detector's proposals included."""
    total = dict(count.operators)
    for operator, flop in count.per_proposal.operators.items() if count.per_proposal else ():
        total[operator] = total.get(operator, 0) + proposals * flop
    return total


def _epoch_flops(measured: Measured, flop_per_sample: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The ensemble's FLOPS in each epoch; their time-weighted mean is the metric's value."""
    samples: dict[int, int] = defaultdict(int)
    seconds: dict[int, float] = defaultdict(float)
    for member in measured.finished:
        for epoch in member.epochs:
            samples[epoch.epoch] += epoch.samples
            seconds[epoch.epoch] += epoch.epoch_s
    return np.array(
        [measured.concurrency * flops_score(flop_per_sample, samples[e], seconds[e]) for e in sorted(samples)]
    )
