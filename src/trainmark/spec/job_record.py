"""JobRecord: all that the ranks of one member need to know, in a file of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_site
from trainmark.spec.files import as_json, read_json
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
        """The nodes among which the member's are; a member lies within one group."""
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


def write_job_records(
    records: list[JobRecord], script: Callable[[JobRecord], str], progress: Callable[[int, int], None] | None = None
) -> None:
    """job.json and job.sh of each member; plainly: the folder is no run before its plan is written."""
    config = as_json(records[0].config.model_dump(exclude_none=True)).strip()  # once: the same in all of them
    for done, record in enumerate(records, start=1):
        member = record.job.member
        record.folder.job(member).mkdir(parents=True)
        text = f'{{\n"config": {config},\n"job": {as_json(job_as_json(record.job)).strip()}\n}}\n'
        record.folder.job_record(member).write_text(text, encoding="utf-8")
        record.folder.job_script(member).write_text(script(record), encoding="utf-8")
        if progress is not None:
            progress(done, len(records))


def read_job_record(path: Path) -> JobRecord:
    """The record in a job.json; the run's folder, with its site, is where it lies: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    config = RunConfig.model_validate(data["config"])
    return JobRecord(folder, config, read_site(folder.site), job_from_json(data["job"]))
