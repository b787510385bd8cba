"""Throughput, step and epoch times, time to train all members, and time not spent training."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, NOT_OVER, Measured
from trainmark.collect.statistics import (
    Samples,
    batches_of_steps,
    mean_interval,
    median_interval,
    pooled_rates,
    summary,
)
from trainmark.spec.events import RunStart, RunStop
from trainmark.spec.machine_events import StagingStop
from trainmark.spec.metrics import Column, Figure, MetricRow
from trainmark.spec.result import Metric
from trainmark.spec.units import show_bytes, show_duration

BATCHES = 10  # of consecutive steps, whose times are correlated: intervals are over batches, not single steps


class SteadyRate(NamedTuple):
    """What all members do per second in steady state, together and each."""

    value: float
    ci95: tuple[float, float] | None
    n: int
    of_members: Samples


def steady_rate(measured: Measured, of_steps: Sequence[Samples]) -> SteadyRate:
    """Returns the rate of an amount of each step of each finished member, counting those which train at a time."""
    amounts = [member.in_steady_state(each) for member, each in zip(measured.finished, of_steps, strict=True)]
    durations = [member.in_steady_state(member.step_s) for member in measured.finished]
    # All members' amounts over all members' time, as in Eq. 6: a mean of rates would favour slow members.
    together = sum(each.sum() for each in amounts) / sum(each.sum() for each in durations)
    rates = measured.concurrency * pooled_rates(amounts, durations, BATCHES)
    of_members = np.array([of.sum() / step_s.sum() for of, step_s in zip(amounts, durations, strict=True)])
    return SteadyRate(measured.concurrency * float(together), mean_interval(rates, least=0.0), len(rates), of_members)


def _throughput(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    rate = steady_rate(measured, [measured.samples_of(member) for member in measured.finished])
    return Figure(
        value=rate.value,
        ci95=rate.ci95,
        n=rate.n,
        detail={
            "per_member": summary(rate.of_members),
            "members_at_a_time": measured.concurrency,
            "warmup_steps": [member.steady.warmup_steps for member in measured.finished],
            "steady_steps": [len(member.in_steady_state(member.step_s)) for member in measured.finished],
            "settled": [member.steady.settled for member in measured.finished],
        },
    )


THROUGHPUT = MetricRow(
    "throughput_samples_per_s",
    "samples/s",
    "higher",
    "throughput",
    description="Samples the whole ensemble trains per second in steady state: samples over time, stalls included.",
    compute=_throughput,
    per_member=True,
    member_heading="throughput",
    results_column=Column("samples", lambda value: f"{value:.4g}/s"),
)


def median_of_steps(of_members: Sequence[Samples]) -> Figure:
    """Returns the median over all steps of all members, whose interval is that of batches of consecutive steps."""
    samples = np.concatenate(of_members)
    medians = np.array([np.median(run) for steps in of_members for run in batches_of_steps(steps, BATCHES)])
    return Figure(
        value=float(np.median(samples)),
        ci95=median_interval(medians),
        n=len(medians),
        detail={**summary(samples), "steps": len(samples)},
    )


def _step_time(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    return median_of_steps([member.in_steady_state(member.step_s) for member in measured.finished])


STEP_TIME = MetricRow(
    "step_time_s",
    "s",
    "lower",
    "step time (median)",
    description="The median duration of one training step in steady state, over all members.",
    compute=_step_time,
    per_member=True,
    member_heading="step time",
)


def _epoch_time(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    whole = [epoch.epoch_s for member in measured.finished for epoch in member.epochs if epoch.is_whole]
    if not whole:
        return "no member trained a whole epoch"
    samples = np.array(whole)
    return Figure(float(np.median(samples)), median_interval(samples), len(samples), summary(samples))


EPOCH_TIME = MetricRow(
    "epoch_time_s",
    "s",
    "lower",
    "epoch time (median)",
    description="The median time of one whole epoch (T_epoch of Eq. 6), without evaluation, over all members.",
    compute=_epoch_time,
    needs="epochs",
    per_member=True,
)


def _time_to_train_all(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    again = [str(member.job.member) for member in measured.members if member.attempts > 1]
    if again:
        return (
            f"member{'s' * (len(again) > 1)} {', '.join(again)} needed several attempts, whose timings are not combined"
        )
    if not measured.is_over:
        return NOT_OVER
    # The time of failed members counts as well: they occupied their cores.
    starts = [start.wall_s for member in measured.members if (start := member.one(RunStart))]
    stops = [stop.wall_s for member in measured.finished if (stop := member.one(RunStop))]
    failed = [member.last_event_s for member in measured.members if member.state == "failed"]
    stops += [last_s for last_s in failed if last_s is not None]
    trained = {"members": len(measured.finished), "of_members": measured.plan.members}
    return Figure(max(stops) - min(starts), n=len(measured.finished), detail=trained)


TIME_TO_TRAIN_ALL = MetricRow(
    "time_to_train_all_s",
    "s",
    "lower",
    "time to train all (TTTa)",
    description="Time to train all members (MLPerf HPC's TTTa): last run_stop minus first run_start.",
    compute=_time_to_train_all,
    needs="the end",
    results_column=Column("TTTa", show_duration),
)


def _models_per_minute(measured: Measured, duration: Metric) -> Figure | str:
    if duration.value is None:
        return duration.reason or ""
    return Figure(60 * len(measured.finished) / duration.value, n=len(measured.finished))


MODELS_PER_MINUTE = MetricRow(
    "models_per_minute",
    "models/min",
    "higher",
    "models per minute",
    description="Members trained per minute (MLPerf HPC's throughput); failed members do not count.",
    compute=_models_per_minute,
    needs="the end",
    builds_on=("time_to_train_all_s",),
    status="derived",
)


def _staging_time(measured: Measured) -> Figure | str:
    if measured.config.launch.stage == "none":
        return "nothing was staged: launch.stage is none"
    if not measured.finished:
        return NO_MEMBER
    stops = [stop for member in measured.finished for stop in member.of_all_ranks(StagingStop)]
    if not stops:
        return f"nothing was staged: samples of {measured.config.dataset} are not read from disk individually"
    copied = [stop for stop in stops if not stop.reused]
    copied_bytes = sum(stop.bytes for stop in copied)
    detail = {
        "copied_packs": len(copied),
        "reused_packs": len(stops) - len(copied),
        "copied_bytes": copied_bytes,
        "samples_share": sum(stop.samples for stop in stops) / sum(stop.of_samples for stop in stops),
        "bytes_per_s": copied_bytes / sum(stop.staging_s for stop in copied) if copied else None,
    }
    return Figure(max(stop.staging_s for stop in stops), n=len(stops), detail=detail)


def _note_on_staging(metric: Metric) -> str:
    detail = metric.detail or {}
    return f"{show_bytes(detail['copied_bytes'])} copied; packs reused: {detail['reused_packs']}"


STAGING_TIME = MetricRow(
    "staging_time_s",
    "s",
    "lower",
    "staging, before training",
    description=("The longest time to copy a member's samples to node-local storage, before training."),
    compute=_staging_time,
    hide_if_unavailable=True,
    note=_note_on_staging,
)


def _data_wait(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    if any(rank.accelerator is not None for member in measured.finished for rank in member.job.ranks):
        return "on an accelerator the host runs ahead of the device, so its waiting time is not the device's"
    waits = [member.in_steady_state(member.wait_s) for member in measured.finished]
    steps = [member.in_steady_state(member.step_s) for member in measured.finished]
    return Figure(float(sum(w.sum() for w in waits) / sum(s.sum() for s in steps)), n=sum(len(s) for s in steps))


DATA_WAIT = MetricRow(
    "data_wait_share",
    "share",
    "lower",
    "waiting for data",
    description="The share of training time spent waiting for the next batch, in steady state.",
    compute=_data_wait,
)


def _harness_overhead(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    epochs = [epoch for member in measured.finished for epoch in member.epochs]
    return Figure(sum(epoch.harness_s for epoch in epochs) / sum(epoch.epoch_s for epoch in epochs), n=len(epochs))


HARNESS_OVERHEAD = MetricRow(
    "harness_overhead_share",
    "share",
    "lower",
    "harness overhead",
    description="The share of training time that trainmark itself spent recording.",
    compute=_harness_overhead,
    needs="epochs",
)
