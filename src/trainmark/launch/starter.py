"""Starter: what differs among launchers whose jobs are processes of this one: which programs start a member's ranks."""

from pathlib import Path
from typing import NamedTuple, Protocol

from trainmark.spec.config import RunConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.site import Site


class ProcessCommand(NamedTuple):
    """A program that ends with this one: its name in exit.json, its words, the variables it is given, and its log."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    holds_input: bool = False  # whether the program's input stays open as long as this process lives


class Starter(Protocol):
    """Knows the programs of a member, and what their ends mean."""

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Nothing, or an error if the plan cannot be started here."""
        ...

    def script(self, record: JobRecord) -> str:
        """The job as a script that a person can read and run; pure."""
        ...

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """The programs of an attempt, whose number and folder are given."""
        ...

    def start_delay_s(self, record: JobRecord) -> float:
        """How long after the start signal training starts, so that all ranks of such a member have seen it."""
        ...

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """Whether a rank has failed though the programs run on."""
        ...

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """One line: why the attempt failed. None stands for a program that still ran at that moment."""
        ...
