"""JobRecord: all that the ranks of one member need to know, in a file of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_site
from trainmark.spec.files import as_json, read_json
from trainmark.spec.member_state import Standing, recorded_standing
from trainmark.spec.plan import Job, Plan, job_as_json, job_from_json
from trainmark.spec.run_folder import AttemptFolder, Places, RunFolder
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.stored_run import read_data_dir


@dataclass(frozen=True)
class JobRecord:
    """A member's job, the run's configuration, the site it was planned on, the run's folder and that of its data."""

    folder: RunFolder
    config: RunConfig
    site: Site
    job: Job
    data_dir: Path | None = None  # if it is not in the runs' folder

    @property
    def places(self) -> Places:
        """Where the run is, and where data are made."""
        return Places.of(self.folder.path.parent, self.data_dir)

    @property
    def key(self) -> tuple[RunFolder, int]:
        """Tells jobs of several runs apart: members of different runs have the same numbers."""
        return self.folder, self.job.member

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

    def recorded(self) -> Standing | None:
        """Where the member stands by the records of its newest try; None: it has left none yet."""
        return recorded_standing(self.folder, self.job.member, self.folder.num_attempts(self.job.member))

    def is_missing(self) -> bool:
        """Whether the newest try has left no completion record."""
        recorded = self.recorded()
        return recorded is None or recorded.is_missing


def job_records(folder: RunFolder, config: RunConfig, plan: Plan, site: Site) -> list[JobRecord]:
    """The jobs of all members of a run."""
    data_dir = read_data_dir(folder)
    return [JobRecord(folder, config, site, job, data_dir) for job in plan.jobs]


def write_jobs(records: list[JobRecord], script: Callable[[JobRecord], str]) -> None:
    """job.json and job.sh of each member. Plain writes: members have not started, and what is cut is written again."""
    if not records:
        return
    config, site = (as_json(part.model_dump(exclude_none=True)) for part in (records[0].config, records[0].site))
    data_dir = as_json(None if records[0].data_dir is None else str(records[0].data_dir))
    for record in records:
        member = record.job.member
        record.folder.job(member).mkdir(parents=True, exist_ok=True)
        job = as_json(job_as_json(record.job))
        text = f'{{\n"config": {config},\n"site": {site},\n"data_dir": {data_dir},\n"job": {job}}}\n'
        record.folder.job_record(member).write_text(text, encoding="utf-8")
        record.folder.job_script(member).write_text(script(record), encoding="utf-8")


def read_job_record(path: Path) -> JobRecord:
    """The record of a job.json; its path gives the run's folder: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    config = RunConfig.model_validate(data["config"])
    # Earlier versions kept the site in site.toml alone.
    site = Site.model_validate(data["site"]) if "site" in data else read_site(folder.site)
    data_dir = data.get("data_dir")
    return JobRecord(folder, config, site, job_from_json(data["job"]), Path(data_dir) if data_dir else None)
