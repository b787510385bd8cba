"""What becomes of a run whose process is asked to end, and how to go on with it."""

from pathlib import Path

from trainmark.launch.launcher import Launcher
from trainmark.spec.errors import RunFailedError, SchedulerError
from trainmark.spec.job_record import JobRecord


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
