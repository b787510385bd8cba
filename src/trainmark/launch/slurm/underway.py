"""Underway: a submitted job that has not ended yet, and why it ended once it has."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainmark.launch.blame import SIGNALLED, explain_srun, has_begun, message_lines
from trainmark.launch.slurm.queue import QueuedJob, final_state, find_job
from trainmark.launch.slurm.start import explain_setup
from trainmark.machine.slurm.programs import SlurmUnreachableError
from trainmark.machine.storage import NFS_CACHE_S, refresh_nfs_cache
from trainmark.spec.failures import DISK_FULL, STOPPED, explain_exit
from trainmark.spec.files import read_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.member_state import End, end_of
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.status import QueueState

MEANINGS = {
    "BOOT_FAIL": "its nodes did not boot",
    "CANCELLED": "cancelled by a user",
    "COMPLETED": "it ended without a completion record",
    "DEADLINE": "its deadline passed",
    "FAILED": "it failed",
    "NODE_FAIL": "a node failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    "PREEMPTED": "it was preempted",
    "REVOKED": "another cluster took it",
    "TIMEOUT": "it reached its time limit",
}
ENDED_BY_SLURM = frozenset({"NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE"})


def explain_end(job: "Underway") -> tuple[End, str | None]:
    """Returns the final state of the attempt and one line with the reason."""
    state = end_of(job.attempt, was_stopped=job.state is not None and job.state.was_cancelled)
    slurm = _slurm_reason(job.state, job.job_id)
    if state == "failed":
        return state, _explain_failure(job, slurm)
    return state, slurm if state == "stopped" else None


def _explain_failure(job: "Underway", slurm: str) -> str:
    """Combines the ranks' errors, the script's exit code, the logs and Slurm's state."""
    error = explain_srun(job.attempt, len(job.record.job.ranks))
    if job.state is not None and job.state.state in ENDED_BY_SLURM:
        return slurm if error is None else f"{slurm}; {error}"
    code = _exit_code(job)
    if error is not None and code != DISK_FULL:  # on a full disk ranks may be unable to record their error
        return error
    why = _explain_exit(code) or _explain_start(job)
    return slurm if why is None else f"{slurm}; {why}"


def _exit_code(job: "Underway") -> int | None:
    """Returns the exit code of the member's script, from its file, else from Slurm."""
    with suppress(OSError, ValueError):
        return int(job.attempt.status.read_text())
    if job.record.config.launch.allocation == "one":  # Slurm has one exit code for all members
        return None
    with suppress(SlurmUnreachableError):
        last = final_state(job.job_id)
        return last.exit_code if last else None
    return None


def _explain_start(job: "Underway") -> str | None:
    """Returns why no rank started: a failed setup line, else the last line of the first non-empty log."""
    ranks = range(len(job.record.job.ranks))
    has_started = any(has_begun(job.attempt, rank) for rank in ranks)
    if not has_started and (setup := explain_setup(job.attempt.job_log)):
        return setup
    for log in (*(job.attempt.rank_log(rank) for rank in ranks), job.attempt.job_log):
        if lines := message_lines(log):
            return f"{lines[-1]} (log: {log})"
    return None


def _explain_exit(code: int | None) -> str | None:
    """Explains an exit code if no rank recorded an error."""
    if code == DISK_FULL:
        return f"a rank failed: {explain_exit(code)}"
    if code is not None and code > SIGNALLED and code != STOPPED:
        return f"a rank was {explain_exit(SIGNALLED - code)}"
    return None


def _slurm_reason(state: QueueState | None, job_id: str) -> str:
    if state is None:
        return f"Slurm no longer knows job {job_id}, and it left no completion record"
    where = f" on {state.nodes}" if state.nodes else ""
    meaning = MEANINGS.get(state.state, "it ended")
    return f"Slurm job {job_id}{where}: {meaning} ({state.state})"


LAST_EVENT_BYTES = 256
# After the completion record ranks wait for neighbours, then measure the ceiling again (train/ceiling.py).
NEIGHBOURS_S = 10.0
KERNELS = 16


@dataclass(eq=False)
class Underway:
    """One job and its last known state."""

    record: JobRecord
    attempt: AttemptFolder
    job_id: str
    state: QueueState | None = None
    is_known_to_continue: bool = False
    gone_since_s: float | None = None
    done_since_s: float | None = None

    def update(self, queue: dict[str, QueuedJob] | None) -> None:
        """Updates the state from the queue; no-op if the queue is unknown."""
        if queue is None:
            return
        job = find_job(queue, self.job_id)
        if job is None and (self.state is None or self.state.is_active):
            try:
                self.state = final_state(self.job_id)
            except SlurmUnreachableError:
                return
        elif job is not None:
            self.state = job.state
        self.is_known_to_continue = self.state is not None and self.state.is_active
        if self.is_known_to_continue and not self.attempt.status.exists():
            self.gone_since_s = None
        elif self.gone_since_s is None:
            self.gone_since_s = time.monotonic()

    def has_ended(self) -> bool:
        """Whether all of the member's records are there, or its job is gone and no more will come."""
        if self.attempt.done.exists():
            self.done_since_s = self.done_since_s or time.monotonic()
            return self._is_all_visible() or self._is_past_deadline(self.done_since_s)
        if self.gone_since_s is None:
            return False
        refresh_nfs_cache(self.attempt.path)
        return _is_long_ago(self.gone_since_s) and not self.attempt.done.exists()

    def _is_past_deadline(self, done_since_s: float) -> bool:
        """Whether no more records will come: the job is gone, or its ranks had time to measure the ceiling again."""
        if self.gone_since_s is not None and _is_long_ago(self.gone_since_s):
            return True
        measure = self.record.config.measure
        after_s = NEIGHBOURS_S + KERNELS * measure.ceiling_seconds if measure.ceiling else 0.0
        return _is_long_ago(done_since_s + after_s)

    def _is_all_visible(self) -> bool:
        """Whether all files that ranks wrote before the completion record are visible here."""
        ranks = range(len(self.record.job.ranks))
        has_all = self.attempt.predictions.exists() or not _has_predictions(self.attempt)
        return has_all and all(_has_finished(self.attempt.rank_events(rank)) for rank in ranks)


def _has_predictions(attempt: AttemptFolder) -> bool:
    """Whether the member has predictions; True if its record is unreadable or does not specify it."""
    try:
        return bool(read_json(attempt.done).get("predictions", True))
    except (OSError, ValueError):
        return True


def _has_finished(events: Path) -> bool:
    """Whether the rank's last event is there, complete."""
    try:
        with events.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_EVENT_BYTES))
            last = file.read()
            return last.endswith(b"\n") and b'"finished"' in last
    except OSError:
        return False


def _is_long_ago(since_s: float) -> bool:
    return time.monotonic() - since_s > NFS_CACHE_S
