"""Launcher: what every way of starting jobs can do."""

from typing import Protocol

from trainmark.spec.config import RunConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.queue import QueueState
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site


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
        """Where each member's newest job is, as far as known; members that were never started are left out."""
        ...
