"""The state of a member, derived from its files, its job and its ranks' errors; used by all commands and launchers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from trainmark.spec.failures import first_error
from trainmark.spec.files import read_record
from trainmark.spec.plan import Job
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.status import MemberState, QueueState

End = Literal["finished", "failed", "stopped"]
EXIT = {"state": str}  # what exit.json must hold
NO_COMPLETION_RECORD = "ended without a completion record"

STILL_WRITING: frozenset[MemberState] = frozenset({"waiting", "queued", "running"})
FINAL_STATES: frozenset[MemberState] = frozenset({"finished", "failed"})  # stopped members can be resumed


class RunActivity(NamedTuple):
    """Whether a run is active, for members without a record of their end."""

    is_watched: bool  # a launcher process is running
    queue: Mapping[int, QueueState] | None = None  # members' jobs; None: scheduler not queried or unreachable


@dataclass(frozen=True)
class MemberStatus:
    """The state of a member's newest attempt, with the reason if it failed or was stopped."""

    state: MemberState
    reason: str | None = None
    attempts: int = 0
    exit: dict[str, Any] | None = None  # recorded by the launcher
    problem: str | None = None  # with the exit record

    @property
    def is_missing(self) -> bool:
        """Whether resume trains the member."""
        return self.state != "finished"

    @property
    def may_be_retried(self) -> bool:
        """Whether it failed; a member that was stopped on purpose is not retried."""
        return self.state == "failed"


def end_of(attempt: AttemptFolder, *, was_stopped: bool) -> End:
    """Returns how an attempt ended whose processes are gone; errors after the completion record do not count."""
    if attempt.done.exists():
        return "finished"
    return "stopped" if was_stopped else "failed"


def recorded_status(folder: RunFolder, member: int, attempts: int) -> MemberStatus | None:
    """Returns the status according to completion and exit record; None if the newest attempt has neither."""
    if attempts == 0:
        return MemberStatus("waiting")
    attempt = folder.attempt(member, attempts)
    has_exit = attempt.exit.exists()
    if not has_exit and not attempt.done.exists():
        return None
    record, problem = read_record(attempt.exit, folder.name_of(attempt.exit), EXIT) if has_exit else (None, None)
    state = end_of(attempt, was_stopped=problem is None and record is not None and record["state"] == "stopped")
    reason = None
    if state != "finished":
        recorded = record and record.get("reason")
        reason = f"how it ended is unknown: {problem}" if problem else str(recorded or NO_COMPLETION_RECORD)
    return MemberStatus(state, reason, attempts, record, problem)


def member_status(folder: RunFolder, job: Job, activity: RunActivity) -> MemberStatus:
    """Returns the status according to the records, else the job, else the ranks' errors, else the run's activity."""
    attempts = folder.num_attempts(job.member)
    if (recorded := recorded_status(folder, job.member, attempts)) is not None:
        return recorded
    queued = (activity.queue or {}).get(job.member)
    if queued is not None and queued.was_cancelled:  # its ranks only report SIGTERM
        return MemberStatus("stopped", f"its job {queued.job_id} was cancelled", attempts)
    if (error := first_error(folder.attempt(job.member, attempts), len(job.ranks))) is not None:
        return MemberStatus("failed", error, attempts)
    return MemberStatus(*_without_record(queued, activity), attempts)


def _without_record(job: QueueState | None, activity: RunActivity) -> tuple[MemberState, str | None]:
    """Returns state and reason of a member without a record of its end."""
    if job is not None and job.is_active:
        return ("queued" if job.is_waiting else "running"), None
    if job is not None:
        return "stopped", f"its job {job.job_id} ended ({job.state}) while no launcher was running to record it"
    if activity.is_watched or activity.queue is None:
        return "running", None
    return "stopped", "the launcher was killed while this member was training"
