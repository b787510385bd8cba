"""JobRecord: all that the ranks of one member need to know, in a file of their own."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_site
from trainmark.spec.files import read_json, write_json, write_text
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


def write_job(record: JobRecord, script: str) -> None:
    """job.json holds the record, job.sh the script."""
    data = {
        "config": record.config.model_dump(exclude_none=True),
        "site": record.site.model_dump(exclude_none=True),
        "job": job_as_json(record.job),
    }
    write_json(record.folder.job_record(record.job.member), data)
    write_text(record.folder.job_script(record.job.member), script)


def read_job_record(path: Path) -> JobRecord:
    """The record of a job.json; its path gives the run's folder: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    config = RunConfig.model_validate(data["config"])
    # Earlier versions kept the site in site.toml alone.
    site = Site.model_validate(data["site"]) if "site" in data else read_site(folder.site)
    return JobRecord(folder, config, site, job_from_json(data["job"]))
