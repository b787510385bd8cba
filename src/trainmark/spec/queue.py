"""QueueState: what a scheduler says of a member's job at one moment; QueueAnswer: what it says of all of a run."""

from dataclasses import dataclass
from typing import NamedTuple

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
