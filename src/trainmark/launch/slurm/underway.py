"""Underway: a member's job that was submitted and has not been seen to end."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from trainmark.launch.slurm.queue import QueuedJob, find_job, last_word
from trainmark.machine.late_files import DELAY_S, look_afresh
from trainmark.machine.slurm.programs import SlurmUnreachableError
from trainmark.spec.files import read_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.queue import QueueState
from trainmark.spec.run_folder import AttemptFolder

LAST_EVENT_BYTES = 256
# After the completion record ranks wait for neighbours, then time each kernel once more (train/ceiling.py).
NEIGHBOURS_S = 10.0
KERNELS = 16


@dataclass
class Underway:
    """One job, and what was last seen of it."""

    record: JobRecord
    attempt: AttemptFolder
    job_id: str
    state: QueueState | None = None
    is_known_to_go_on: bool = False
    gone_since_s: float | None = None
    done_since_s: float | None = None

    def look(self, queue: dict[str, QueuedJob] | None) -> None:
        """Takes in what the queue says; None: it said nothing."""
        if queue is None:
            return
        job = find_job(queue, self.job_id)
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
        """Whether the member left all its records, or its job is gone and will not leave more."""
        if self.attempt.done.exists():
            self.done_since_s = self.done_since_s or time.monotonic()
            return self._is_all_to_be_seen() or self._is_late(self.done_since_s)
        if self.gone_since_s is None:
            return False
        look_afresh(self.attempt.path)
        return _is_long_ago(self.gone_since_s) and not self.attempt.done.exists()

    def _is_late(self, done_since_s: float) -> bool:
        """Whether nothing more is to come: the job is gone, or its ranks had time to measure the ceiling once more."""
        if self.gone_since_s is not None and _is_long_ago(self.gone_since_s):
            return True
        measure = self.record.config.measure
        after_s = NEIGHBOURS_S + KERNELS * measure.ceiling_seconds if measure.ceiling else 0.0
        return _is_long_ago(done_since_s + after_s)

    def _is_all_to_be_seen(self) -> bool:
        """Whether what the ranks wrote on other nodes, before the completion record, has arrived here too."""
        ranks = range(len(self.record.job.ranks))
        has_all = self.attempt.predictions.exists() or not _has_predictions(self.attempt)
        return has_all and all(_has_finished(self.attempt.rank_events(rank)) for rank in ranks)


def _has_predictions(attempt: AttemptFolder) -> bool:
    """Whether the member left predictions; a record that does not say so, or cannot be read yet, had them."""
    try:
        return bool(read_json(attempt.done).get("predictions", True))
    except (OSError, ValueError):
        return True


def _has_finished(events: Path) -> bool:
    """Whether the rank's last line is there, and whole."""
    try:
        with events.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_EVENT_BYTES))
            last = file.read()
            return last.endswith(b"\n") and b'"finished"' in last
    except OSError:
        return False


def _is_long_ago(since_s: float) -> bool:
    return time.monotonic() - since_s > DELAY_S
