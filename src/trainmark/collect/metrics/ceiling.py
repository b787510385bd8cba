"""The ceiling of the cores or accelerators in use, which of its rounds others disturbed, and training's share of it."""

import statistics
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from trainmark.collect.measured import Measured, Member
from trainmark.collect.statistics import product_interval
from trainmark.machine.cpu_usage import resolution_s
from trainmark.spec.events import RankStarted
from trainmark.spec.machine_events import Ceiling, CeilingRound
from trainmark.spec.metrics import Column, Figure, MetricRow, plain_note
from trainmark.spec.plan import Plan
from trainmark.spec.result import Metric
from trainmark.spec.units import show_value

REPORT = "one of the two figures is wrong, please report it"
FEWEST_ROUNDS = 6  # of which the median and the fastest bound what the cores can do: single slow rounds do not count
# Cores' worth of others' work that make a ceiling doubtful: kernels wait for the slowest core, so one burdened core is
# enough. On quiet cores up to 0.08 of one and 0.28 of 16 were seen; a busy process on one of them takes 0.5 or more.
MOST_OF_ONE_CORE = 0.2
MOST_OF_EACH_CORE = 0.02
SEEN = 0.25  # of a measurement's rounds: fewer disturbed ones are left out without a warning
SHARED = "workers share cores, so the kernel's counts do not tell them from others"
UNPINNED = "the rank did not run on its own cores alone"


class Round(NamedTuple):
    """What the winning kernel reached, and how many cores' worth of work others did meanwhile (None: not watched)."""

    flops: float
    others_cores: float | None
    is_disturbed: bool


class Measurement(NamedTuple):
    """One measurement of one rank, before or after training."""

    member: int
    rank: int
    phase: str
    kernel: str
    rounds: tuple[Round, ...]
    no_progress: str | None

    @property
    def is_disturbed(self) -> bool:
        """Whether others were there for a good part of it, and not in a short burst alone."""
        return sum(each.is_disturbed for each in self.rounds) > SEEN * len(self.rounds)

    @property
    def most_of_others(self) -> float:
        """The cores' worth of others' work in the worst round."""
        return max((each.others_cores or 0.0 for each in self.rounds), default=0.0)


def read_measurements(measured: Measured) -> dict[tuple[int, int], list[Measurement]]:
    """The measurements of every rank of every lane, by lane and rank; a lane has several members one after another."""
    found: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    cores = cores_in_use(measured.plan)
    shared = SHARED if len(cores) > len(set(cores)) else None
    for member in measured.members:
        for rank in member.job.ranks:
            for event in member.all_of(Ceiling, rank.rank):
                no_progress = _unwatched(member, rank.rank, event) or shared
                found[member.job.lane, rank.rank].append(_measurement(member, rank.rank, event, no_progress))
    return found


def cores_in_use(plan: Plan) -> list[tuple[str, int]]:
    """Node and number of the cores of all workers that run at the same time; shared ones stand there several times."""
    return [(rank.node, core) for job in plan.first_jobs for rank in job.ranks for core in rank.cores]


def _unwatched(member: Member, rank: int, event: Ceiling) -> str | None:
    """Why nothing is known of others' load; events of earlier versions say nothing of it."""
    if event.rounds is None:
        return "the events are older than this check"
    started = member.one(RankStarted, rank)
    if started is not None and not started.affinity.verified:
        return UNPINNED
    return event.no_progress


def _measurement(member: Member, rank: int, event: Ceiling, no_progress: str | None) -> Measurement:
    rounds = event.rounds or []
    if no_progress is not None:
        flops = [event.flops] if event.rounds is None else [each.flops for each in rounds]
        judged = [Round(each, None, False) for each in flops]
    else:
        whole_s = sum(each.over_s for each in rounds), sum(each.others_s or 0.0 for each in rounds)
        judged = [_judge(each, whole_s, event.cores, event.clock_tick_s) for each in rounds]
    return Measurement(member.job.member, rank, event.phase, event.kernel, tuple(judged), no_progress)


def _judge(one: CeilingRound, whole_s: tuple[float, float], num_cores: int, tick_s: float) -> Round:
    """A round by its own load, or by that of the whole measurement where clock ticks are too coarse for a round."""
    limit, least_s = most_of_others(num_cores), resolution_s(num_cores, tick_s)
    over_s, others_s = (one.over_s, one.others_s or 0.0) if limit * one.over_s >= least_s else whole_s
    return Round(one.flops, others_s / over_s, others_s > max(limit * over_s, least_s))


def most_of_others(num_cores: int) -> float:
    """The cores' worth of others' work up to which a round counts."""
    return MOST_OF_ONE_CORE + MOST_OF_EACH_CORE * num_cores


def _ceiling(measured: Measured, steady: Metric) -> Figure | str:
    if not measured.config.measure.ceiling:
        return "not measured: measure.ceiling is false"
    found = read_measurements(measured)
    wanted = {(member.job.lane, rank.rank) for member in measured.members for rank in member.job.ranks}
    if wanted - found.keys():
        return "not measured on every lane: a member failed before it could"
    trusted = {place: _trusted(found[place]) for place in wanted}
    disturbed = [place for place in sorted(wanted) if not trusted[place]]
    if disturbed:
        return _why_disturbed(found[disturbed[0]])
    most, usual = (sum(of(flops) for flops in trusted.values()) for of in (max, statistics.median))
    if measured.finished and all(each.epochs for each in measured.finished):  # then there is a speed to compare with
        if steady.value is None:
            return steady.reason or ""
        if steady.value > most:
            return f"training ran at {steady.value / most:.0%} of the measured ceiling: {REPORT}"
    has_interval = min(len(flops) for flops in trusted.values()) >= FEWEST_ROUNDS
    return Figure(
        value=most,
        ci95=(usual, most) if has_interval else None,
        n=sum(len(flops) for flops in trusted.values()),
        detail=_detail(measured, [each for place in sorted(wanted) for each in found[place]]),
    )


def _trusted(measurements: list[Measurement]) -> list[float]:
    """FLOP/s of the rounds that were not disturbed."""
    return [each.flops for one in measurements for each in one.rounds if not each.is_disturbed]


def _why_disturbed(measurements: list[Measurement]) -> str:
    first = measurements[0]
    when = " and ".join(sorted({each.phase for each in measurements}, reverse=True))
    most = max(each.most_of_others for each in measurements)
    return (
        f"other processes took {most:.2g} cores of member {first.member} rank {first.rank} while the ceiling was "
        f"measured {when} training. Measure on a quieter machine."
    )


def _detail(measured: Measured, measurements: list[Measurement]) -> dict[str, Any]:
    kernels = Counter(each.kernel for each in measurements)
    phases = ("before", "after")
    no_progress = next((each.no_progress for each in measurements if each.no_progress is not None), None)
    return {
        "precision": measured.config.train.precision,
        "kernel": max(kernels, key=lambda name: kernels[name]),
        "kernels_that_won": dict(kernels),
        "lanes": len({member.job.lane for member in measured.members}),
        "measurements": {phase: sum(each.phase == phase for each in measurements) for phase in phases},
        "rounds_left_out": sum(each.is_disturbed for one in measurements for each in one.rounds),
        "others_cores_most": max(each.most_of_others for each in measurements),
        "no_progress": no_progress,
        **({} if no_progress is None else {"note": f"load by others was not watched: {no_progress}"}),
    }


def _note_on_kernel(metric: Metric) -> str:
    detail = metric.detail or {}
    return "; ".join(part for part in (f"{detail['precision']}, {detail['kernel']}", plain_note(metric)) if part)


CEILING = MetricRow(
    "ceiling_flops",
    "FLOP/s",
    "neither",
    "ceiling (measured)",
    description="What the cores or accelerators in use can do: the best of several kernels, before and after training.",
    compute=_ceiling,
    builds_on=("flops_steady",),
    note=_note_on_kernel,
)


def _share(measured: Measured, speed: Metric, ceiling: Metric) -> Figure | str:
    if speed.value is None or ceiling.value is None:
        return speed.reason or ceiling.reason or ""
    value = speed.value / ceiling.value
    factors = [(speed, 1.0), *([(ceiling, -1.0)] if ceiling.ci95 else [])]
    return Figure(
        value=value,
        ci95=product_interval(value, *factors),
        n=speed.n,
        convention=speed.convention,
        detail={**(ceiling.detail or {}), "flops_steady": speed.value, "ceiling_flops": ceiling.value},
    )


SHARE = MetricRow(
    "flops_share_of_ceiling",
    "share",
    "higher",
    "share of ceiling",
    description="The share of what the machine can do that settled training reached: steady FLOPS over the ceiling.",
    compute=_share,
    needs="epochs",
    builds_on=("flops_steady", "ceiling_flops"),
    status="derived",
    results_column=Column("share", lambda value: show_value(value, "share")),
)
