"""Running all jobs of a plan with any launcher: submit what fits, watch, retry what failed, record how each ended."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.launch.launcher import Launcher
from trainmark.machine.storage import write_from_reserve
from trainmark.spec.errors import RunFailedError, SchedulerError
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord, write_jobs
from trainmark.spec.member_state import End
from trainmark.spec.run_folder import AttemptFolder


def record_end(record: JobRecord, attempt: AttemptFolder, state: End, reason: str | None, **facts: Any) -> None:
    """exit.json says how the attempt ended, on a full disk too; what follows the completion record fails no member."""
    if attempt.done.exists():
        state, reason = "finished", None
    data = {"state": state, "reason": reason, **facts}
    write_from_reserve(record.folder.reserve("exit"), lambda: write_json(attempt.exit, data))


def run_jobs(launcher: Launcher, records: list[JobRecord], on_poll: Callable[[], None]) -> None:
    """Every job has run to its end, good or bad. Whatever `on_poll`, called between looks, raises ends the watch.

    Then jobs that end with this process are stopped; those that outlive it go on.
    """
    under_way = {record.job.member for record in launcher.adopt(records)}
    waiting = [record for record in records if record.job.member not in under_way and record.is_missing()]
    # Not of those under way, whose nodes read these files. A folder that was moved has other paths now.
    write_jobs(waiting, launcher.script)
    tries = Counter(under_way)
    try:
        while waiting or launcher.num_running():
            if launcher.broken:
                waiting = []
            if submitted := {record.job.member for record in launcher.submit(waiting)} if waiting else None:
                tries.update(submitted)
                waiting = [record for record in waiting if record.job.member not in submitted]
            waiting += [record for record in launcher.poll() if _is_due_again(record, tries)]
            on_poll()
            time.sleep(launcher.poll_s)
    finally:
        if not launcher.outlives_us:
            launcher.cancel()


def _is_due_again(record: JobRecord, tries: Counter[int]) -> bool:
    recorded = record.recorded()
    has_failed = recorded is not None and recorded.may_be_tried_again
    return has_failed and tries[record.job.member] < record.config.launch.attempts


def outcome_of_stop(run_path: Path, *, jobs_go_on: bool) -> str:
    """What follows «Stopped by …»."""
    if jobs_go_on:
        return (
            f"; jobs that were submitted go on. See them with: trainmark status {run_path}; stop them with: trainmark "
            f"cancel {run_path}; watch and collect with: trainmark resume {run_path}"
        )
    return f". Finished members are kept; go on with: trainmark resume {run_path}"


def cancel_jobs(launcher: Launcher, records: list[JobRecord], run_path: Path, *, was_watched: bool) -> bool:
    """Whether there was anything to stop; an error that says what was done, if the scheduler is unreachable.

    Jobs that end with the process that started them have ended with it.
    """
    if not launcher.outlives_us:
        return was_watched
    try:
        going_on = launcher.adopt(records)
        launcher.cancel()
    except SchedulerError as error:
        done = "The process that watched the run was stopped, but jobs" if was_watched else "Jobs"
        raise RunFailedError(
            f"{done} were not cancelled, and may go on: {error}. Once Slurm answers: trainmark cancel {run_path}"
        ) from None
    return was_watched or bool(going_on)
