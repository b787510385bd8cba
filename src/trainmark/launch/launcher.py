"""Launcher: what every way of starting jobs can do."""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from trainmark.spec.config import RunConfig
from trainmark.spec.errors import SchedulerError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueAnswer, QueueState
from trainmark.spec.stored_run import read_stored

MOST_SUBMITTED = 1000  # members of which a preview shows what is submitted for them together


class Launcher(Protocol):
    """Starts members' jobs somewhere and knows what has become of them."""

    broken: str | None  # why no further job can be started, if so
    outlives_us: bool  # whether jobs go on when this process ends

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
        """Those jobs that are under way already, started by a process before this one; they are ours now."""
        ...

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """Those jobs of `waiting` that are on their way now, each as a new attempt; the others have to wait."""
        ...

    def poll(self) -> list[JobRecord]:
        """The jobs that have ended since the last look; their ends are recorded."""
        ...

    def seen(self) -> dict[int, QueueState]:
        """Where the jobs of members were at the last look, if there is a scheduler."""
        ...

    def num_running(self) -> int:
        """Jobs that were submitted and have not ended."""
        ...

    def cancel(self) -> None:
        """No job runs any more; their ends are recorded as stopped."""
        ...

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Where each member's newest job is, as far as known; members that were never started are left out.

        Raises SchedulerError if there is a scheduler and it does not answer.
        """
        ...


def ask_queue(folder: RunFolder) -> QueueAnswer:
    """What the scheduler says of a stored run's jobs, or why it says nothing; without a scheduler there are none."""
    launcher: Launcher = LAUNCHERS.load(read_stored(folder)[0].launch.launcher)()
    try:
        return QueueAnswer(launcher.queue(folder))
    except SchedulerError as error:
        return QueueAnswer(None, str(error))


def preview_scripts(launcher: Launcher, records: Iterable[JobRecord], most_members: int) -> dict[str, str]:
    """What would be submitted and the scripts of the first members, by file name; of many members no more is made."""
    records = iter(records)
    first = list(islice(records, max(MOST_SUBMITTED, most_members)))
    if first[0].config.launch.allocation == "one":  # one script holds them all
        first += records
    scripts = {each.folder.name_of(each.folder.job_script(each.job.member)): each for each in first[:most_members]}
    return launcher.batch_scripts(first) | {name: launcher.script(record) for name, record in scripts.items()}
