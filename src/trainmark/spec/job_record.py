"""JobRecord: all that the ranks of one member need to know, in a file of their own."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.files import read_json, write_json
from trainmark.spec.plan import Job, job_as_json, job_from_json
from trainmark.spec.run_folder import RunFolder


@dataclass(frozen=True)
class JobRecord:
    """A member's job, the run's configuration, and the run's folder."""

    folder: RunFolder
    config: RunConfig
    job: Job


def write_job_record(record: JobRecord) -> None:
    """job.json holds the record."""
    data = {"config": record.config.model_dump(exclude_none=True), "job": job_as_json(record.job)}
    write_json(record.folder.job_record(record.job.member), data)


def read_job_record(path: Path) -> JobRecord:
    """The record in a job.json; its run's folder is where the file lies: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    return JobRecord(folder, RunConfig.model_validate(data["config"]), job_from_json(data["job"]))
