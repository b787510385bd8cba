"""Why a member's job ended: its own completion record first, then its ranks' errors, then Slurm's word."""

from contextlib import suppress

from trainmark.launch.blame import SIGNALLED, explain_srun, has_begun, lines_with_words
from trainmark.launch.ends import End
from trainmark.launch.slurm.queue import last_word
from trainmark.launch.slurm.setup import explain_setup
from trainmark.launch.slurm.underway import Underway
from trainmark.machine.slurm.programs import SlurmUnreachableError
from trainmark.spec.exit_codes import DISK_FULL, STOPPED, explain_exit
from trainmark.spec.queue import QueueState

MEANINGS = {
    "BOOT_FAIL": "its nodes did not boot",
    "CANCELLED": "cancelled by a user",
    "COMPLETED": "it ended without a completion record",
    "DEADLINE": "its deadline passed",
    "FAILED": "it failed",
    "NODE_FAIL": "a node failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    "PREEMPTED": "another job took its place",
    "REVOKED": "another cluster took it",
    "TIMEOUT": "it reached its time limit",
}
BY_SLURM_ALONE = frozenset({"NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE"})


def explain_end(job: Underway) -> tuple[End, str | None]:
    """The state of the attempt, and one line that says why."""
    if job.attempt.done.exists():
        return "finished", None
    slurm = _says(job.state, job.job_id)
    if job.state is not None and job.state.was_cancelled:
        return "stopped", slurm
    error = explain_srun(job.attempt, len(job.record.job.ranks))
    if job.state is not None and job.state.state in BY_SLURM_ALONE:
        return "failed", slurm if error is None else f"{slurm}; {error}"
    code = _exit_code(job)
    if error is not None and code != DISK_FULL:  # on a full disk it depends on some bytes whether a rank can say so
        return "failed", error
    why = _explain_exit(code) or _explain_start(job)
    return "failed", slurm if why is None else f"{slurm}; {why}"


def _exit_code(job: Underway) -> int | None:
    """What the member's script ended with: it writes that down itself; on a full disk Slurm remembers it."""
    with suppress(OSError, ValueError):
        return int(job.attempt.status.read_text())
    if job.record.config.launch.allocation == "one":  # Slurm's is that of all members together
        return None
    with suppress(SlurmUnreachableError):
        last = last_word(job.job_id)
        return last.exit_code if last else None
    return None


def _explain_start(job: Underway) -> str | None:
    """Why no rank began: a failing line of setup, else the end of the first log in which there is something."""
    ranks = range(len(job.record.job.ranks))
    has_started = any(has_begun(job.attempt, rank) for rank in ranks)
    if not has_started and (setup := explain_setup(job.attempt.job_log)):
        return setup
    for log in (*(job.attempt.rank_log(rank) for rank in ranks), job.attempt.job_log):
        if lines := lines_with_words(log):
            return f"{lines[-1]} (log: {log})"
    return None


def _explain_exit(code: int | None) -> str | None:
    """What an exit code means of ranks that left no error of their own."""
    if code == DISK_FULL:
        return f"a rank ended: {explain_exit(code)}"
    if code is not None and code > SIGNALLED and code != STOPPED:
        return f"a rank was {explain_exit(SIGNALLED - code)}"
    return None


def _says(state: QueueState | None, job_id: str) -> str:
    if state is None:
        return f"Slurm no longer knows job {job_id}, and it left no completion record"
    where = f" on {state.nodes}" if state.nodes else ""
    meaning = MEANINGS.get(state.state, "it ended")
    return f"Slurm's job {job_id}{where}: {meaning} ({state.state})"
