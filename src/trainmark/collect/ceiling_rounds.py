"""The rounds in which ranks measured their ceilings, and which of them others disturbed."""

from collections import defaultdict
from typing import NamedTuple

from trainmark.collect.measured import Measured, Member
from trainmark.machine.cpu_usage import resolution_s
from trainmark.spec.events import RankStarted
from trainmark.spec.machine_events import Ceiling, CeilingRound
from trainmark.spec.plan import Plan

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
    unwatched: str | None

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
                unwatched = _unwatched(member, rank.rank, event) or shared
                found[member.job.lane, rank.rank].append(_measurement(member, rank.rank, event, unwatched))
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
    return event.unwatched


def _measurement(member: Member, rank: int, event: Ceiling, unwatched: str | None) -> Measurement:
    rounds = event.rounds or []
    if unwatched is not None:
        flops = [event.flops] if event.rounds is None else [each.flops for each in rounds]
        judged = [Round(each, None, False) for each in flops]
    else:
        whole_s = sum(each.over_s for each in rounds), sum(each.others_s or 0.0 for each in rounds)
        judged = [_judge(each, whole_s, event.cores, event.clock_tick_s) for each in rounds]
    return Measurement(member.job.member, rank, event.phase, event.kernel, tuple(judged), unwatched)


def _judge(one: CeilingRound, whole_s: tuple[float, float], num_cores: int, tick_s: float) -> Round:
    """A round by its own load, or by that of the whole measurement where clock ticks are too coarse for a round."""
    limit, least_s = most_of_others(num_cores), resolution_s(num_cores, tick_s)
    over_s, others_s = (one.over_s, one.others_s or 0.0) if limit * one.over_s >= least_s else whole_s
    return Round(one.flops, others_s / over_s, others_s > max(limit * over_s, least_s))


def most_of_others(num_cores: int) -> float:
    """The cores' worth of others' work up to which a round counts."""
    return MOST_OF_ONE_CORE + MOST_OF_EACH_CORE * num_cores
