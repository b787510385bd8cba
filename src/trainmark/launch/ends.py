"""How attempts ended, as launchers record it: exit.json of each."""

from typing import Any, Literal

from trainmark.machine.storage import write_from_reserve
from trainmark.spec.files import read_json, write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.run_folder import AttemptFolder

End = Literal["finished", "failed", "stopped"]


def record_end(record: JobRecord, attempt: AttemptFolder, state: End, reason: str | None, **facts: Any) -> None:
    """exit.json says how the attempt ended, on a full disk too; what follows the completion record fails no member."""
    if attempt.done.exists():
        state, reason = "finished", None
    data = {"state": state, "reason": reason, **facts}
    write_from_reserve(record.folder.reserve("exit"), lambda: write_json(attempt.exit, data))


def may_be_tried_again(record: JobRecord) -> bool:
    """Whether the newest try failed; one that was stopped on purpose is left alone."""
    attempt = record.folder.attempt(record.job.member, record.folder.num_attempts(record.job.member))
    return not record.is_finished() and bool(read_json(attempt.exit)["state"] != "stopped")
