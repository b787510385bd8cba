"""Submission: what was given to sbatch together; recorded before, so that no job is ever unknown."""

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trainmark.spec.files import read_json, write_json
from trainmark.spec.run_folder import RunFolder

# How the scripts of script.py name the tries that they hold.
IN_ARRAY = re.compile(r"^members=\((?P<members>[\d ]*)\)\nattempts=\((?P<attempts>[\d ]*)\)$", re.MULTILINE)
IN_ALLOCATION = re.compile(r"/(\d+)/job\.sh (\d+) ")
TOKEN = re.compile(r"^#SBATCH --comment=.*submission-\d+-(\w+)", re.MULTILINE)


class Task(NamedTuple):
    """One try at a member."""

    member: int
    attempt: int


@dataclass(frozen=True)
class Submission:
    """Tries that were submitted together, as an array or in one allocation; `job_id` is None until Slurm gave one."""

    number: int
    tasks: tuple[Task, ...]
    is_array: bool
    job_id: str | None
    gave_up: bool = False  # Slurm refused it, or never heard of it
    token: str = ""  # distinguishes it from submissions of a copy of the run's folder, whose jobs have the same name

    @property
    def comment(self) -> str:
        """By this a job is recognised in the queue, should its number be lost."""
        return f"submission-{self.number}-{self.token}" if self.token else f"submission-{self.number}"

    def job_of(self, task: Task) -> str | None:
        """The number of a task's job in the queue."""
        if self.job_id is None:
            return None
        return f"{self.job_id}_{self.tasks.index(task)}" if self.is_array else self.job_id

    def with_job(self, job_id: str) -> "Submission":
        """The submission, once Slurm has taken it."""
        return replace(self, job_id=job_id)


def write_submission(folder: RunFolder, submission: Submission) -> None:
    """The record in the run's folder."""
    write_json(
        folder.submission_record(submission.number),
        {
            "job_id": submission.job_id,
            "is_array": submission.is_array,
            "gave_up": submission.gave_up,
            "token": submission.token,
            "folder": folder.identity(),
            "tasks": [task._asdict() for task in submission.tasks],
        },
    )


def read_submissions(folder: RunFolder) -> list[Submission]:
    """All of a run, oldest first; those that were copied along with its folder belong to the original."""
    found = (_read(folder, number) for number in folder.submission_numbers())
    return [submission for submission in found if submission is not None]


def _read(folder: RunFolder, number: int) -> Submission | None:
    """None where it belongs to another folder; one whose record cannot be read is taken from its script."""
    try:
        data = read_json(folder.submission_record(number))
        return _from_record(number, data) if folder.is_owner_of(data) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return _from_script(folder, number)


def _from_script(folder: RunFolder, number: int) -> Submission | None:
    """What script.py wrote there, its job unknown; without a script nothing was submitted."""
    try:
        text = folder.submission_script(number).read_text(errors="replace")
    except OSError:
        return Submission(number, (), is_array=True, job_id=None)
    if shlex.quote(str(folder.path)) not in text:  # scripts name the folder in which they were written
        return None
    if found := IN_ARRAY.search(text):
        tries = list(zip(found["members"].split(), found["attempts"].split(), strict=False))
    else:
        tries = IN_ALLOCATION.findall(text)
    tasks = tuple(Task(int(member), int(attempt)) for member, attempt in tries)
    token = TOKEN.search(text)
    return Submission(number, tasks, is_array=found is not None, job_id=None, token=token[1] if token else "")


def _from_record(number: int, data: dict[str, Any]) -> Submission:
    tasks = tuple(Task(**task) for task in data["tasks"])
    return Submission(number, tasks, data["is_array"], data["job_id"], data["gave_up"], data.get("token", ""))
