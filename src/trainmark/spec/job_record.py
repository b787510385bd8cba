"""JobRecord: all that the ranks of one member need to know, in a file of their own."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_site
from trainmark.spec.files import read_json, write_json
from trainmark.spec.plan import Job, job_as_json, job_from_json
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import NodeGroup, Site


@dataclass(frozen=True)
class JobRecord:
    """A member's job, the run's configuration, the site it was planned on, and the run's folder."""

    folder: RunFolder
    config: RunConfig
    site: Site
    job: Job

    @property
    def group(self) -> NodeGroup:
        """The nodes among which the member's are; a member is within one group."""
        return self.site.group_of(self.job.ranks[0].node)

    def new_attempt(self) -> tuple[int, AttemptFolder]:
        """The number and the folder of the next try at the member."""
        number = self.folder.num_attempts(self.job.member) + 1
        attempt = self.folder.attempt(self.job.member, number)
        attempt.path.mkdir(parents=True)
        return number, attempt

    def is_finished(self) -> bool:
        """Whether the newest try has left its completion record."""
        attempts = self.folder.num_attempts(self.job.member)
        return attempts > 0 and self.folder.attempt(self.job.member, attempts).done.exists()


def write_job_record(record: JobRecord) -> None:
    """job.json holds the record."""
    data = {"config": record.config.model_dump(exclude_none=True), "job": job_as_json(record.job)}
    write_json(record.folder.job_record(record.job.member), data)


def read_job_record(path: Path) -> JobRecord:
    """The record of a job.json; its path gives the run's folder, with the site: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    config = RunConfig.model_validate(data["config"])
    return JobRecord(folder, config, read_site(folder.site), job_from_json(data["job"]))
