"""Why a member's job ended: its own completion record first, then its ranks' errors, then Slurm's word."""

from trainmark.launch.blame import first_error
from trainmark.launch.ends import End
from trainmark.launch.slurm.underway import Underway
from trainmark.spec.queue import QueueState

MEANINGS = {
    "BOOT_FAIL": "its nodes did not boot",
    "CANCELLED": "somebody cancelled it",
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
    error = first_error(job.attempt, len(job.record.job.ranks))
    if error is None or (job.state is not None and job.state.state in BY_SLURM_ALONE):
        return "failed", slurm if error is None else f"{slurm}; {error}"
    return "failed", error


def _says(state: QueueState | None, job_id: str) -> str:
    if state is None:
        return f"Slurm no longer knows job {job_id}, and it left no completion record"
    where = f" on {state.nodes}" if state.nodes else ""
    meaning = MEANINGS.get(state.state, "it ended")
    return f"Slurm's job {job_id}{where}: {meaning} ({state.state})"
