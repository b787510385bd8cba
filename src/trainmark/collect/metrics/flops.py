"""FLOPS of the ensemble, over the whole training and in steady state, and VFLOPS: AI500's scores (Eq. 6 to 8)."""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.metrics.speed import steady_rate
from trainmark.collect.statistics import Samples, product_interval, rate_interval
from trainmark.collect.work import Epoch
from trainmark.spec.metrics import Column, Figure, MetricRow, plain_note
from trainmark.spec.model_events import SampleFlops
from trainmark.spec.result import Metric
from trainmark.spec.units import show_value, with_prefix

CONVENTION = "exact"
NEGLIGIBLE = 0.05  # of the training time


def flops_score(flop_per_sample: float, samples: float, seconds: float) -> float:
    """Eq. 6 over any number of epochs: training FLOPs of all samples over the time."""
    return flop_per_sample * samples / seconds


def quality_coefficient(quality: float, target: float, exponent: float) -> float:
    """Eq. 8: (achieved / target)^n; a bonus above 1, a penalty below."""
    return float((quality / target) ** exponent)


def implied_quality(coefficient: float, target: float, exponent: float) -> float:
    """Eq. 8 inverted: the quality that a coefficient implies."""
    return float(target * coefficient ** (1 / exponent))


def vflops_score(flops: float, quality: float, target: float, exponent: float) -> float:
    """Eq. 7: FLOPS weighted by quality."""
    return flops * quality_coefficient(quality, target, exponent)


def _flops(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    samples = sum(epoch.samples for member in measured.finished for epoch in member.epochs)
    per_sample = {name: flop / samples for name, flop in _flop_of_epochs(measured).items()}
    values = {name: flops_score(flop, samples, measured.training_s) for name, flop in per_sample.items()}
    of_epochs = _epoch_flops(measured)
    return Figure(
        value=values[CONVENTION],
        ci95=rate_interval(of_epochs),
        n=max(1, len(of_epochs)),
        convention=CONVENTION,
        detail={
            "by_convention": values,
            "training_flop_per_sample": per_sample,
            **_by_operator(measured),
            "samples": samples,
            "training_s": measured.training_s,
        },
    )


def _flop_of(member: Member, epoch: Epoch) -> dict[str, float]:
    """Training FLOPs of an epoch by convention: of its steps, else of its samples."""
    return epoch.flop or {name: flop * epoch.samples for name, flop in member.training_flop_per_sample().items()}


def _flop_of_epochs(measured: Measured) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for member in measured.finished:
        for epoch in member.epochs:
            for name, flop in _flop_of(member, epoch).items():
                total[name] += flop
    return dict(total)


def _by_operator(measured: Measured) -> dict[str, Any]:
    """Operators of a sample, and a detector's proposals; nothing for samples of unlike shapes."""
    if any(member.total_px is not None for member in measured.finished):
        return {}
    proposals = float(np.mean([member.proposals_per_image for member in measured.finished]))
    counts = measured.finished[0].flop_counts()
    operators = {name: _operators(count, proposals) for name, count in counts.items()}
    return {"operators": operators, "proposals_per_image": proposals}


def _operators(count: SampleFlops, proposals: float) -> dict[str, float]:
    """Training FLOPs per sample by operator, a detector's proposals included."""
    total = dict(count.operators)
    for operator, flop in count.per_proposal.operators.items() if count.per_proposal else ():
        total[operator] = total.get(operator, 0) + proposals * flop
    return total


def _epoch_flops(measured: Measured) -> Samples:
    """Returns the ensemble's FLOPS per epoch that was whole in all members; others are no equal amounts of work."""
    flop: dict[int, float] = defaultdict(float)
    seconds: dict[int, float] = defaultdict(float)
    epochs = [(member, epoch) for member in measured.finished for epoch in member.epochs]
    for member, epoch in epochs:
        flop[epoch.epoch] += _flop_of(member, epoch)[CONVENTION]
        seconds[epoch.epoch] += epoch.epoch_s
    whole = sorted(flop.keys() - {epoch.epoch for _, epoch in epochs if not epoch.is_whole})
    return np.array([measured.concurrency * flop[epoch] / seconds[epoch] for epoch in whole])


def _note_on_conventions(metric: Metric) -> str:
    if not metric.detail or "by_convention" not in metric.detail:
        return plain_note(metric)
    return f"{metric.convention} convention; ai500: {show_value(metric.detail['by_convention']['ai500'], 'FLOP/s')}"


FLOPS = MetricRow(
    "flops",
    "FLOP/s",
    "higher",
    "FLOPS (Eq. 6)",
    description="FLOPS of the ensemble (Eq. 6): all members' training FLOPs over the time of their epochs.",
    compute=_flops,
    needs="epochs",
    is_headline=True,
    note=_note_on_conventions,
    per_member=True,
    member_heading="FLOPS",
    results_column=Column("FLOPS", lambda value: with_prefix(value, "")),
)


def _flops_steady(measured: Measured, whole: Metric) -> Figure | str:
    if whole.value is None:
        return whole.reason or ""
    flop = [measured.flop_of(member) for member in measured.finished]
    rates = {name: steady_rate(measured, [of_member[name] for of_member in flop]) for name in flop[0]}
    rate = rates[CONVENTION]
    return Figure(
        value=rate.value,
        ci95=rate.ci95,
        n=rate.n,
        convention=CONVENTION,
        detail={
            "by_convention": {name: each.value for name, each in rates.items()},
            **_compared(measured, whole.value / rate.value),
        },
    )


class WarmUpCost(NamedTuple):
    """One member's training time beyond its steady-state steps."""

    training_s: float
    warmup_s: float  # excess of the first steps over steady-state ones
    epoch_s: float  # of an epoch in steady state
    between_steps_s: float  # per epoch, outside steps
    steps_per_epoch: float

    @property
    def steps_until_negligible(self) -> int | None:
        """Steps after which those in steady state are 95 % of the training time; None: never."""
        epochs = self._epochs_until_negligible
        return None if epochs is None else math.ceil(epochs * self.steps_per_epoch)

    @property
    def epochs_until_negligible(self) -> int | None:
        """The same in whole epochs."""
        epochs = self._epochs_until_negligible
        return None if epochs is None else math.ceil(epochs)

    @property
    def _epochs_until_negligible(self) -> float | None:
        # (w + N·b) / (w + N·(e + b)) ≤ 5 %
        gain_s = NEGLIGIBLE * self.epoch_s - (1 - NEGLIGIBLE) * self.between_steps_s
        return (1 - NEGLIGIBLE) * self.warmup_s / gain_s if gain_s > 0 else None


def _cost_of_warm_up(member: Member) -> WarmUpCost:
    """Computes the cost from step and epoch durations."""
    training_s = sum(epoch.epoch_s for epoch in member.epochs)
    warm_up, sizes = member.step_s[: member.steady.warmup_steps], member.step_weights
    # Of a step of mean size.
    steady_s = float(member.in_steady_state(member.step_s).sum() / member.in_steady_state(sizes).sum())
    num_epochs = sum(epoch.share for epoch in member.epochs)
    return WarmUpCost(
        training_s=training_s,
        warmup_s=max(0.0, float(warm_up.sum() - sizes[: len(warm_up)].sum() * steady_s)),
        epoch_s=steady_s * len(member.step_s) / num_epochs,
        between_steps_s=max(0.0, training_s - float(member.step_s.sum())) / num_epochs,
        steps_per_epoch=len(member.step_s) / num_epochs,
    )


def _compared(measured: Measured, whole_share: float) -> dict[str, Any]:
    """Compares with FLOPS of the whole training, and explains the difference."""
    costs = [_cost_of_warm_up(member) for member in measured.finished]
    longest = max(costs, key=lambda cost: cost.warmup_s)
    epochs, steps = ([getattr(cost, f"{what}_until_negligible") for cost in costs] for what in ("epochs", "steps"))
    return {
        "whole_training_share": whole_share,
        "warmup_s": longest.warmup_s,
        "training_s": longest.training_s,
        "between_steps_s": float(np.mean([cost.between_steps_s for cost in costs])),
        "epochs_until_negligible": None if None in epochs else max(epochs),
        "steps_until_negligible": None if None in steps else max(steps),
        "steps_per_epoch": longest.steps_per_epoch,
        "epoch_s": longest.epoch_s,
    }


FLOPS_STEADY = MetricRow(
    "flops_steady",
    "FLOP/s",
    "higher",
    "FLOPS, steady state",
    description="FLOPS of the ensemble in steady state: training FLOPs of its steps over their time.",
    compute=_flops_steady,
    needs="epochs",  # for the cost of warm-up
    builds_on=("flops",),
    status="derived",
    per_member=True,
)


def _vflops(measured: Measured, speed: Metric, quality: Metric) -> Figure | str:
    if speed.value is None or quality.value is None:
        return speed.reason or quality.reason or ""
    evaluate = measured.config.evaluate
    try:
        coefficient = quality_coefficient(quality.value, evaluate.target_quality, evaluate.exponent)
        value = vflops_score(speed.value, quality.value, evaluate.target_quality, evaluate.exponent)
    except OverflowError:
        return "(quality / target)^exponent overflows"
    return Figure(
        value=value,
        ci95=product_interval(value, (speed, 1.0), (quality, evaluate.exponent)),
        n=speed.n,
        convention=speed.convention,
        exponent=evaluate.exponent,
        detail={
            "coefficient": coefficient,
            "quality": quality.value,
            "target_quality": evaluate.target_quality,
        },
    )


def _note_on_quality(metric: Metric) -> str:
    detail = metric.detail or {}
    if "coefficient" not in detail:
        return plain_note(metric)
    ratio = f"{detail['quality']:.4g} / {detail['target_quality']:g}"
    return f"× ({ratio})^{metric.exponent:g} = × {detail['coefficient']:.3g}"


VFLOPS = MetricRow(
    "vflops",
    "FLOP/s",
    "higher",
    "VFLOPS (Eq. 7)",
    description="VFLOPS (Eq. 7 and 8): FLOPS weighted by the ensemble's quality relative to the target.",
    compute=_vflops,
    needs="epochs and predictions",
    builds_on=("flops", "quality_ensemble"),
    status="derived",
    is_headline=True,
    note=_note_on_quality,
    results_column=Column("VFLOPS", lambda value: with_prefix(value, "")),
)
