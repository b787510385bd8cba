"""The status of a run before and during training: findings, estimate, members' progress, scheduler queue."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

MemberState = Literal["waiting", "queued", "running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Finding:
    """A check, its verdict, and the fix if there is a problem."""

    what: str
    verdict: Literal["good", "warning", "problem"]
    found: str
    fix: str = ""


Range = tuple[float, float]  # minimum, maximum
STEPS_FOR_SPEED = 40  # enough to separate warm-up from steady state


@dataclass(frozen=True)
class StoredSpeed:
    """Peak throughput per core in a stored run, and the fraction that the same model reached, if any."""

    run_id: str
    ceiling_flops: float
    share: float | None


class Spread(NamedTuple):
    """A value that is estimated: at least, expected, at most."""

    least: float
    expected: float
    most: float


@dataclass(frozen=True)
class Estimate:
    """Seconds of the whole run and bytes per worker; None if unknown. `basis` is the source, or why it is unknown."""

    seconds: Range | None
    worker_bytes: Spread | None
    basis: str
    workers_at_a_time: int
    available_bytes: int | None  # memory of this machine; None if workers run elsewhere
    # Of images of unlike shapes: which ones would not fit, each alone; empty if all would. None: all are alike.
    too_large: str | None = None
    limit_bytes: float | None = None  # of a worker, by launch.memory_gib or the site's memory_gib_per_slot


RunningState = Literal["starting", "staging", "training", "predicting"]  # phase of a running member
ACTIVE_STATES: tuple[RunningState, ...] = get_args(RunningState)


@dataclass(frozen=True)
class MemberProgress:
    """A snapshot of one member."""

    member: int
    state: MemberState | RunningState = "waiting"
    phase: str = ""  # of the start-up until the first step, and of measurements after training
    attempt: int = 0
    epoch: int = 0
    epochs: int | None = None  # of the whole training; None if not known
    step: int = 0
    loss: float | None = None
    samples_per_s: float | None = None
    quality: float | None = None
    seconds_left: float | None = None
    trained_s: float = 0.0
    job: "QueueState | None" = None  # if there is a scheduler


# Slurm's states of jobs that have not ended.
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})


@dataclass(frozen=True)
class QueueState:
    """A job in the scheduler's queue; state and reason are the scheduler's."""

    job_id: str
    state: str
    nodes: str = ""
    reason: str = ""
    exit_code: int | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the job has not started."""
        return self.state in WAITING

    @property
    def is_active(self) -> bool:
        """Whether the job is pending or running."""
        return self.state in WAITING | RUNNING

    @property
    def was_cancelled(self) -> bool:
        """Whether the job was cancelled."""
        return self.state.startswith("CANCELLED")


class QueueAnswer(NamedTuple):
    """The newest known job of each member; None and the error if the scheduler is unreachable."""

    jobs: dict[int, QueueState] | None
    error: str | None = None
