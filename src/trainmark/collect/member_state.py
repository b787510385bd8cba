"""What a member is doing, as every command says it: by its files, then by the scheduler, then by who works on it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.status import MemberState, QueueState


class Outlook(NamedTuple):
    """What is known of members that have left no record of their end."""

    is_watched: bool  # whether a launcher works on the run
    queue: Mapping[int, QueueState] | None = None  # members' jobs; None: the scheduler was not asked, or is unreachable


def member_state(
    member: int,
    attempt: AttemptFolder,
    attempts: int,
    exit_record: dict[str, Any] | None,
    error: str | None,
    outlook: Outlook,
) -> tuple[MemberState, str | None]:
    """The state, and its reason if that is no good one; `error` is what the rank that failed first failed with."""
    if attempt.done.exists():
        return "finished", None
    if attempts == 0:
        return "waiting", None
    if exit_record is not None:
        reason = str(exit_record.get("reason") or "ended without a completion record")
        return ("stopped" if exit_record.get("state") == "stopped" else "failed"), reason
    job = (outlook.queue or {}).get(member)
    if job is not None and job.was_cancelled:  # its ranks only say that they were stopped
        return "stopped", f"its job {job.job_id} was cancelled"
    if error is not None:
        return "failed", error
    return _without_record(job, outlook)


def _without_record(job: QueueState | None, outlook: Outlook) -> tuple[MemberState, str | None]:
    """The state of a member without a record of its end."""
    if job is not None and job.is_going_on:
        return ("queued" if job.is_waiting else "running"), None
    if job is not None:
        return "stopped", f"its job {job.job_id} ended ({job.state}), and no launcher was there to record it"
    if outlook.is_watched or outlook.queue is None:
        return "running", None
    return "stopped", "the launcher was killed while this member trained"
