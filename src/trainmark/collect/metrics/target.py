"""What it takes to reach the target quality: epochs, time and FLOP until the first evaluation that has it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.metrics.flops import CONVENTION
from trainmark.collect.statistics import median_interval, summary
from trainmark.spec.events import EpochStop, Evaluation, RunStart
from trainmark.spec.layout import global_batch
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.units import counted

DID_NOT_REACH = "did not reach the target"  # in the reason: it is known that the target was missed


class Reached(NamedTuple):
    """The first evaluation of a member that reached the target."""

    member: Member
    evaluation: Evaluation
    stop: EpochStop  # of the epoch before it


def _first_reached(member: Member, target: float) -> Reached | None:
    stops = {stop.epoch: stop for stop in member.all_of(EpochStop)}
    found = next((each for each in member.all_of(Evaluation) if each.quality >= target), None)
    return None if found is None else Reached(member, found, stops[found.epoch])


def _of_all_members(measured: Measured) -> list[Reached] | str:
    """Returns where each finished member reached the target, or why that is not known of all."""
    if reason := measured.why_no_quality:
        return reason
    if not measured.finished:
        return NO_MEMBER
    # An earlier attempt that stops at the target leaves no checkpoint beyond it.
    restarted = [each.job.member for each in measured.finished if each.was_restarted]
    if restarted and not measured.config.train.stop_at_target:
        return f"member {restarted[0]} was restarted from a checkpoint, and may have reached the target before it"
    target = measured.config.evaluate.target_quality
    found = {member.job.member: _first_reached(member, target) for member in measured.finished}
    below = [member for member in measured.finished if found[member.job.member] is None]
    if below:
        qualities = [each.quality for member in below for each in member.all_of(Evaluation)]
        best = f"; best {max(qualities):.4g}" if qualities else ""
        of_all = f"{len(below)} of {counted(len(measured.finished), 'member')}"
        return f"{of_all} {DID_NOT_REACH} {target:g}{best}"
    return [each for each in found.values() if each is not None]


def _median(measured: Measured, cost: Callable[[Reached], float], convention: str | None = None) -> Figure | str:
    found = _of_all_members(measured)
    if isinstance(found, str):
        return found
    costs = np.array([cost(each) for each in found])
    detail = {**summary(costs), "target_quality": measured.config.evaluate.target_quality}
    return Figure(float(np.median(costs)), median_interval(costs), len(costs), detail, convention)


def _epochs(measured: Measured) -> Figure | str:
    return _median(measured, lambda reached: reached.stop.epochs_done)


EPOCHS_TO_TARGET = MetricRow(
    "epochs_to_target",
    "epochs",
    "lower",
    "epochs to target",
    description="Epochs until a member's first evaluation at or above the target quality, median over the members.",
    compute=_epochs,
    needs="finished members",
    hide_if_unavailable=True,
    per_member=True,
)


def _time(measured: Measured) -> Figure | str:
    restarted = [each.job.member for each in measured.finished if each.was_restarted]
    if restarted:
        return f"member {restarted[0]} needed several attempts, whose timings are not combined"

    def seconds(reached: Reached) -> float:
        start = reached.member.one(RunStart)
        assert start is not None  # else its events are damaged and it does not count
        return reached.evaluation.wall_s - start.wall_s

    return _median(measured, seconds)


TIME_TO_TARGET = MetricRow(
    "time_to_target_s",
    "s",
    "lower",
    "time to target",
    description="Time from run_start to the end of a member's first evaluation at the target (MLPerf's), median.",
    compute=_time,
    needs="finished members",
    hide_if_unavailable=True,
    per_member=True,
)


def _flop(measured: Measured) -> Figure | str:
    unlike = [each for each in measured.finished if each.total_px is not None and each.was_restarted]
    if unlike:
        return f"member {unlike[0].job.member} was restarted, and the shapes of its steps before that are not known"

    batch = global_batch(measured.config.train, measured.plan.workers_per_member)

    def flop(reached: Reached) -> float:
        member, steps = reached.member, reached.stop.next_step
        if member.total_px is None:  # all steps are alike, those of earlier attempts, too
            return steps * batch * member.training_flop_per_sample()[CONVENTION]
        return float(measured.flop_of(member)[CONVENTION][:steps].sum())

    return _median(measured, flop, CONVENTION)


FLOP_TO_TARGET = MetricRow(
    "flop_to_target",
    "FLOP",
    "lower",
    "FLOP to target",
    description="Training FLOP until a member's first evaluation at or above the target quality, median.",
    compute=_flop,
    needs="finished members",
    hide_if_unavailable=True,
    per_member=True,
)
