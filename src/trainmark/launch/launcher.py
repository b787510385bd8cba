"""Launcher: what every way of starting jobs can do."""

from typing import Protocol

from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan


class Launcher(Protocol):
    """Starts members' jobs somewhere and knows what has become of them."""

    poll_s: float
    broken: str | None  # why no further job can be started, if so

    def check(self, plan: Plan) -> None:
        """Nothing, or an error if this launcher cannot start that plan here."""

    def script(self, record: JobRecord) -> str:
        """The job as a script that a person can read and run; pure."""

    def can_start(self, record: JobRecord) -> bool:
        """Whether the job's place is free now."""

    def submit(self, record: JobRecord, attempt: int) -> None:
        """The job is on its way."""

    def poll(self) -> None:
        """Looks at the running jobs, and records the ends of those that ended."""

    def num_running(self) -> int:
        """Jobs that were submitted and have not ended."""

    def cancel(self) -> None:
        """No job runs any more; their ends are recorded as stopped."""
