"""Launcher: the interface of all ways to start jobs, and recording a job's end."""

from typing import Any, Protocol

from trainmark.machine.storage import write_from_reserve
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import SchedulerError, UnknownNameError
from trainmark.spec.files import one_line, write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.member_state import End
from trainmark.spec.plan import Plan
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueAnswer, QueueState
from trainmark.spec.stored_run import read_stored

MAX_PREVIEWED = 1000  # members whose batch scripts a preview shows


class Launcher(Protocol):
    """Starts the jobs of one or more runs and tracks their states."""

    broken: dict[RunFolder, str]  # runs that can start no more jobs, and why
    outlives_us: bool  # whether jobs continue when this process ends
    one_run_at_a_time: bool  # whether concurrent runs would disturb each other: no scheduler separates them

    @property
    def poll_s(self) -> float:
        """Seconds until the next poll."""
        ...

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if this launcher cannot start that plan here."""
        ...

    def reach(self) -> None:
        """Raises if jobs cannot be submitted at the moment; called before anything is written."""
        ...

    def script(self, record: JobRecord) -> str:
        """The job as a script that a person can read and run; pure."""
        ...

    def batch_scripts(self, records: list[JobRecord]) -> dict[str, str]:
        """Returns the scripts that would be submitted for several members, by file name in the run folder; pure."""
        ...

    def adopt(self, records: list[JobRecord]) -> list[JobRecord]:
        """Takes over jobs, of any runs, that an earlier process started and that are under way; returns them."""
        ...

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """Submits as many of one run's `waiting` jobs as possible, each as a new attempt; returns these."""
        ...

    def poll(self) -> None:
        """Queries the scheduler, if there is one, once for the jobs of all runs."""
        ...

    def take_ended(self, folder: RunFolder) -> list[JobRecord]:
        """Returns the jobs of a run that had ended at the last poll, and records their ends."""
        ...

    def last_states(self, folder: RunFolder) -> dict[int, QueueState]:
        """Returns the states of a run's jobs at the last poll, by member; empty without a scheduler."""
        ...

    def num_running(self, folder: RunFolder) -> int:
        """Returns the number of a run's jobs that are submitted and have not ended."""
        ...

    def cancel(self, folder: RunFolder) -> None:
        """Stops all jobs of the run and records them as stopped."""
        ...

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Queries the state of each member's newest job; members never started are left out.

        Raises SchedulerError if the scheduler is unreachable.
        """
        ...


def load_launcher(name: str) -> Launcher:
    """Returns a new launcher by name; raises if the name is one of something else."""
    make = LAUNCHERS.load(name)
    try:
        launcher: Launcher = make()
        _ = launcher.poll_s, launcher.check, launcher.submit, launcher.take_ended, launcher.one_run_at_a_time
    except (TypeError, AttributeError) as error:
        raise UnknownNameError(
            f"The launcher '{name}' is none: {one_line(error)}. Known launchers: {', '.join(LAUNCHERS)}."
        ) from error
    return launcher


def record_end(record: JobRecord, attempt: AttemptFolder, state: End, reason: str | None, **facts: Any) -> None:
    """Writes exit.json, also on a full disk; errors after the completion record do not fail a member."""
    if attempt.done.exists():
        state, reason = "finished", None
    data = {"state": state, "reason": reason, **facts}
    write_from_reserve(record.folder.reserve("exit"), lambda: write_json(attempt.exit, data))


def ask_queue(folder: RunFolder) -> QueueAnswer:
    """Queries the scheduler for a stored run's jobs; the answer has the reason if it is unreachable."""
    launcher = load_launcher(read_stored(folder)[0].launch.launcher)
    try:
        return QueueAnswer(launcher.queue(folder))
    except SchedulerError as error:
        return QueueAnswer(None, str(error))


def preview_scripts(launcher: Launcher, records: list[JobRecord], most_members: int) -> dict[str, str]:
    """Returns the batch scripts and the scripts of the first members, by file name."""
    is_one_script = records[0].config.launch.allocation == "one"
    first = records if is_one_script else records[: max(MAX_PREVIEWED, most_members)]
    scripts = {each.folder.name_of(each.folder.job_script(each.job.member)): each for each in first[:most_members]}
    return launcher.batch_scripts(first) | {name: launcher.script(record) for name, record in scripts.items()}
