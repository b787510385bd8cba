"""Underway: a member's job that was submitted and has not been seen to end."""

import time
from dataclasses import dataclass

from trainmark.launch.slurm.programs import SlurmUnreachableError
from trainmark.launch.slurm.queue import QueuedJob, last_word
from trainmark.spec.job_record import JobRecord
from trainmark.spec.queue import QueueState
from trainmark.spec.run_folder import AttemptFolder

# How long a job that has ended may keep us waiting for its completion record: shared storage shows files late.
SHARED_STORAGE_DELAY_S = 6.0


@dataclass
class Underway:
    """One job, and what was last seen of it."""

    record: JobRecord
    attempt: AttemptFolder
    job_id: str
    state: QueueState | None = None
    is_known_to_go_on: bool = False
    gone_since_s: float | None = None

    def look(self, queue: dict[str, QueuedJob] | None) -> None:
        """Takes in what the queue says; None: it said nothing."""
        if queue is None:
            return
        job = queue.get(self.job_id)
        if job is None and (self.state is None or self.state.is_going_on):
            try:
                self.state = last_word(self.job_id)
            except SlurmUnreachableError:
                return
        elif job is not None:
            self.state = job.state
        self.is_known_to_go_on = self.state is not None and self.state.is_going_on
        if self.is_known_to_go_on and not self.attempt.status.exists():
            self.gone_since_s = None
        elif self.gone_since_s is None:
            self.gone_since_s = time.monotonic()

    def has_ended(self) -> bool:
        """Whether the member left its completion record, or its job is gone and will not leave one any more."""
        if self.attempt.done.exists():
            return True
        return self.gone_since_s is not None and time.monotonic() - self.gone_since_s > SHARED_STORAGE_DELAY_S
