"""The states of a member, by which every command and launcher goes: by its files, its job, its ranks' errors."""

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
WITHOUT_COMPLETION = "ended without a completion record"

STILL_WRITING: frozenset[MemberState] = frozenset({"waiting", "queued", "running"})
SETTLED: frozenset[MemberState] = frozenset({"finished", "failed"})  # nothing more is to come; stopped ones are resumed


class Outlook(NamedTuple):
    """What is known of members that have left no record of their end."""

    is_watched: bool  # whether a launcher works on the run
    queue: Mapping[int, QueueState] | None = None  # members' jobs; None: the scheduler was not asked, or is unreachable


@dataclass(frozen=True)
class Standing:
    """The state of a member's newest attempt, and the reason if that is no good one."""

    state: MemberState
    reason: str | None = None
    attempts: int = 0
    exit: dict[str, Any] | None = None  # what the launcher recorded
    problem: str | None = None  # with that record

    @property
    def is_missing(self) -> bool:
        """Whether the member is to be trained when the run is resumed."""
        return self.state != "finished"

    @property
    def may_be_tried_again(self) -> bool:
        """Whether it failed; one that was stopped on purpose is left alone."""
        return self.state == "failed"


def end_of(attempt: AttemptFolder, *, was_stopped: bool) -> End:
    """How an attempt ended whose processes are gone; what follows the completion record fails no member."""
    if attempt.done.exists():
        return "finished"
    return "stopped" if was_stopped else "failed"


def recorded_standing(folder: RunFolder, member: int, attempts: int) -> Standing | None:
    """Where a member stands by its completion record and its launcher's; None: the last of its attempts has neither."""
    if attempts == 0:
        return Standing("waiting")
    attempt = folder.attempt(member, attempts)
    has_exit = attempt.exit.exists()
    if not has_exit and not attempt.done.exists():
        return None
    record, problem = read_record(attempt.exit, folder.name_of(attempt.exit), EXIT) if has_exit else (None, None)
    state = end_of(attempt, was_stopped=problem is None and record is not None and record["state"] == "stopped")
    reason = None
    if state != "finished":
        recorded = record and record.get("reason")
        reason = f"how it ended is unknown: {problem}" if problem else str(recorded or WITHOUT_COMPLETION)
    return Standing(state, reason, attempts, record, problem)


def standing_of(folder: RunFolder, job: Job, outlook: Outlook) -> Standing:
    """Where a member stands: by what was recorded, else by its job, by its ranks' errors, and by who works on it."""
    attempts = folder.num_attempts(job.member)
    if (recorded := recorded_standing(folder, job.member, attempts)) is not None:
        return recorded
    queued = (outlook.queue or {}).get(job.member)
    if queued is not None and queued.was_cancelled:  # its ranks only say that they were stopped
        return Standing("stopped", f"its job {queued.job_id} was cancelled", attempts)
    if (error := first_error(folder.attempt(job.member, attempts), len(job.ranks))) is not None:
        return Standing("failed", error, attempts)
    return Standing(*_without_record(queued, outlook), attempts)


def _without_record(job: QueueState | None, outlook: Outlook) -> tuple[MemberState, str | None]:
    """The state of a member that has left no word of its end."""
    if job is not None and job.is_going_on:
        return ("queued" if job.is_waiting else "running"), None
    if job is not None:
        return "stopped", f"its job {job.job_id} ended ({job.state}), and no launcher was there to record it"
    if outlook.is_watched or outlook.queue is None:
        return "running", None
    return "stopped", "the launcher was killed while this member trained"
