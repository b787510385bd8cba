"""Submission: what was given to sbatch together; recorded before, so that no job is ever unknown."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trainmark.spec.files import read_json, write_json
from trainmark.spec.run_folder import RunFolder


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
    token: str = ""  # tells it from submissions of a copy of the run's folder, whose jobs have the same name

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
    records = {number: read_json(folder.submission_record(number)) for number in folder.submission_numbers()}
    return [_read(number, data) for number, data in records.items() if folder.is_owner_of(data)]


def _read(number: int, data: dict[str, Any]) -> Submission:
    tasks = tuple(Task(**task) for task in data["tasks"])
    return Submission(number, tasks, data["is_array"], data["job_id"], data["gave_up"], data.get("token", ""))
