"""Submission: members submitted by one sbatch call, recorded first so that no job is ever lost."""

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trainmark.spec.files import read_json, write_json
from trainmark.spec.run_folder import RunFolder

# How the scripts of script.py list their attempts.
IN_ARRAY = re.compile(r"^members=\((?P<members>[\d ]*)\)\nattempts=\((?P<attempts>[\d ]*)\)$", re.MULTILINE)
IN_ALLOCATION = re.compile(r"/(\d+)/job\.sh (\d+) ")
TOKEN = re.compile(r"^#SBATCH --comment=.*submission-\d+-(\w+)", re.MULTILINE)


class Task(NamedTuple):
    """One attempt at a member."""

    member: int
    attempt: int


@dataclass(frozen=True)
class Submission:
    """Attempts submitted together, as an array or in one allocation; `job_id` is None until Slurm assigns one."""

    number: int
    tasks: tuple[Task, ...]
    is_array: bool
    job_id: str | None
    gave_up: bool = False  # refused by Slurm, or never received
    token: str = ""  # distinguishes it from submissions of a copied run folder, whose jobs have the same name

    @property
    def comment(self) -> str:
        """Identifies the job in the queue if its ID is lost."""
        return f"submission-{self.number}-{self.token}" if self.token else f"submission-{self.number}"

    def job_of(self, task: Task) -> str | None:
        """Returns the job ID of a task."""
        if self.job_id is None:
            return None
        return f"{self.job_id}_{self.tasks.index(task)}" if self.is_array else self.job_id

    def with_job(self, job_id: str) -> "Submission":
        """Returns the submission with Slurm's job ID."""
        return replace(self, job_id=job_id)


def write_submission(folder: RunFolder, submission: Submission) -> None:
    """Writes the record in the run folder."""
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
    """Returns a run's submissions, oldest first, without those copied with its folder from another run."""
    found = (_read(folder, number) for number in folder.submission_numbers())
    return [submission for submission in found if submission is not None]


def _read(folder: RunFolder, number: int) -> Submission | None:
    """Reads a submission, from its script if the record is unreadable; None if it belongs to another folder."""
    try:
        data = read_json(folder.submission_record(number))
        return _from_record(number, data) if folder.is_owner_of(data) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return _from_script(folder, number)


def _from_script(folder: RunFolder, number: int) -> Submission | None:
    """Restores a submission from its script, without job ID; empty without a script, when nothing was submitted."""
    try:
        text = folder.submission_script(number).read_text(errors="replace")
    except OSError:
        return Submission(number, (), is_array=True, job_id=None)
    if shlex.quote(str(folder.path)) not in text:  # scripts contain the path of their run folder
        return None
    if found := IN_ARRAY.search(text):
        attempts = list(zip(found["members"].split(), found["attempts"].split(), strict=False))
    else:
        attempts = IN_ALLOCATION.findall(text)
    tasks = tuple(Task(int(member), int(attempt)) for member, attempt in attempts)
    token = TOKEN.search(text)
    return Submission(number, tasks, is_array=found is not None, job_id=None, token=token[1] if token else "")


def _from_record(number: int, data: dict[str, Any]) -> Submission:
    tasks = tuple(Task(**task) for task in data["tasks"])
    return Submission(number, tasks, data["is_array"], data["job_id"], data["gave_up"], data.get("token", ""))
