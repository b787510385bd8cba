"""What is said of a run before and while it trains: findings, estimate, members' progress, the scheduler's queue."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

MemberState = Literal["waiting", "queued", "running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Finding:
    """What was found, whether it is good, and what to do if it is not."""

    what: str
    verdict: Literal["good", "warning", "problem"]
    found: str
    fix: str = ""


Range = tuple[float, float]  # least, most
STEPS_FOR_SPEED = 40  # enough to tell warm-up from steady state


@dataclass(frozen=True)
class StoredSpeed:
    """What a core of this machine could do in a stored run, and the share of it that the same model reached, if any."""

    run_id: str
    ceiling_flops: float
    share: float | None


@dataclass(frozen=True)
class Estimate:
    """Seconds of the whole run and bytes of one worker; None where nothing is known. `basis` says from what, or why."""

    seconds: Range | None
    worker_bytes: Range | None
    basis: str
    workers_at_a_time: int
    available_bytes: int | None  # memory of this machine; None where workers run elsewhere


RunningState = Literal["starting", "staging", "training", "predicting"]  # what a member that runs is at
GOING_ON: tuple[RunningState, ...] = get_args(RunningState)


@dataclass(frozen=True)
class MemberProgress:
    """One member at one moment."""

    member: int
    state: MemberState | RunningState = "waiting"
    phase: str = ""  # what a member that has not trained a step yet is at
    attempt: int = 0
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    loss: float | None = None
    samples_per_s: float | None = None
    quality: float | None = None
    seconds_left: float | None = None
    job: "QueueState | None" = None  # as a scheduler sees it, where there is one


# Slurm's words for jobs that have not ended.
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})


@dataclass(frozen=True)
class QueueState:
    """A job as the scheduler sees it; state and reason are the scheduler's own words."""

    job_id: str
    state: str
    nodes: str = ""
    reason: str = ""
    exit_code: int | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the job has not begun."""
        return self.state in WAITING

    @property
    def is_going_on(self) -> bool:
        """Whether the job waits or runs."""
        return self.state in WAITING | RUNNING

    @property
    def was_cancelled(self) -> bool:
        """Whether a user ended the job."""
        return self.state.startswith("CANCELLED")


class QueueAnswer(NamedTuple):
    """The newest job of each member, as far as the scheduler knows them; None, and why, where it does not answer."""

    jobs: dict[int, QueueState] | None
    silence: str | None = None
