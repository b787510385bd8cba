"""Launcher: what every way of starting jobs can do, and how each records the end of one."""

from typing import Any, Literal, Protocol

from trainmark.machine.storage import write_from_reserve
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import SchedulerError
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueAnswer, QueueState
from trainmark.spec.stored_run import read_stored

MOST_SUBMITTED = 1000  # members of which a preview shows what is submitted for them together


class Launcher(Protocol):
    """Starts the jobs of one or more runs somewhere and knows what has become of them."""

    broken: dict[RunFolder, str]  # runs of which no further job can be started, and why
    outlives_us: bool  # whether jobs go on when this process ends
    one_run_at_a_time: bool  # whether runs would disturb each other: they share this machine, and no scheduler

    @property
    def poll_s(self) -> float:
        """How long to wait before the next look."""
        ...

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if this launcher cannot start that plan here."""
        ...

    def reach(self) -> None:
        """Raises if no job can be submitted from here at present; called before anything is written."""
        ...

    def script(self, record: JobRecord) -> str:
        """The job as a script that a person can read and run; pure."""
        ...

    def batch_scripts(self, records: list[JobRecord]) -> dict[str, str]:
        """What would be submitted for several members together, by file name in the run's folder; pure."""
        ...

    def adopt(self, records: list[JobRecord]) -> list[JobRecord]:
        """Those jobs, of any runs, that an earlier process started and that are still under way; they are ours now."""
        ...

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """Those jobs of one run's `waiting` that are submitted now, each as a new attempt; the others have to wait."""
        ...

    def look(self) -> None:
        """Asks the scheduler, if there is one, once for the jobs of all runs."""
        ...

    def take_ended(self, folder: RunFolder) -> list[JobRecord]:
        """The jobs of a run that have ended by the last look; their ends are recorded."""
        ...

    def seen(self, folder: RunFolder) -> dict[int, QueueState]:
        """Where the jobs of a run's members were at the last look, if there is a scheduler."""
        ...

    def num_running(self, folder: RunFolder) -> int:
        """Jobs of a run that were submitted and have not ended."""
        ...

    def cancel(self, folder: RunFolder) -> None:
        """No job of the run goes on; their ends are recorded as stopped."""
        ...

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Where each member's newest job is, as far as known; members that were never started are left out.

        Raises SchedulerError if there is a scheduler and it does not answer.
        """
        ...


End = Literal["finished", "failed", "stopped"]


def record_end(record: JobRecord, attempt: AttemptFolder, state: End, reason: str | None, **facts: Any) -> None:
    """exit.json says how the attempt ended, on a full disk too; what follows the completion record fails no member."""
    if attempt.done.exists():
        state, reason = "finished", None
    data = {"state": state, "reason": reason, **facts}
    write_from_reserve(record.folder.reserve("exit"), lambda: write_json(attempt.exit, data))


def ask_queue(folder: RunFolder) -> QueueAnswer:
    """What the scheduler says of a stored run's jobs, or why it says nothing; without a scheduler there are none."""
    launcher: Launcher = LAUNCHERS.load(read_stored(folder)[0].launch.launcher)()
    try:
        return QueueAnswer(launcher.queue(folder))
    except SchedulerError as error:
        return QueueAnswer(None, str(error))


def preview_scripts(launcher: Launcher, records: list[JobRecord], most_members: int) -> dict[str, str]:
    """What would be submitted and the scripts of the first members, by file name; of many members no more is made."""
    is_one_script = records[0].config.launch.allocation == "one"
    first = records if is_one_script else records[: max(MOST_SUBMITTED, most_members)]
    scripts = {each.folder.name_of(each.folder.job_script(each.job.member)): each for each in first[:most_members]}
    return launcher.batch_scripts(first) | {name: launcher.script(record) for name, record in scripts.items()}
