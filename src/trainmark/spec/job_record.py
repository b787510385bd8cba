"""JobRecord: everything the ranks of one member need, stored in job.json."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_site
from trainmark.spec.files import as_json, read_json
from trainmark.spec.member_state import MemberStatus, recorded_status
from trainmark.spec.plan import Job, Plan, job_as_json, job_from_json
from trainmark.spec.run_folder import AttemptFolder, Places, RunFolder
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.stored_run import read_data_dir


@dataclass(frozen=True)
class JobRecord:
    """A member's job with the run's configuration, site, folder and data folder."""

    folder: RunFolder
    config: RunConfig
    site: Site
    job: Job
    data_dir: Path | None = None  # if outside the runs folder

    @property
    def places(self) -> Places:
        """The runs folder and the folder of generated data."""
        return Places.of(self.folder.path.parent, self.data_dir)

    @property
    def key(self) -> tuple[RunFolder, int]:
        """Identifies the job among those of several runs, whose member numbers overlap."""
        return self.folder, self.job.member

    @property
    def group(self) -> NodeGroup:
        """The node group of the member; a member never spans groups."""
        return self.site.group_of(self.job.ranks[0].node)

    def new_attempt(self) -> tuple[int, AttemptFolder]:
        """Creates the folder of the next attempt; returns its number and folder."""
        number = self.folder.num_attempts(self.job.member) + 1
        attempt = self.folder.attempt(self.job.member, number)
        attempt.path.mkdir(parents=True)
        return number, attempt

    def recorded(self) -> MemberStatus | None:
        """Returns the member's status according to the records of its newest attempt; None without records."""
        return recorded_status(self.folder, self.job.member, self.folder.num_attempts(self.job.member))

    def is_missing(self) -> bool:
        """Whether the newest attempt has no completion record."""
        recorded = self.recorded()
        return recorded is None or recorded.is_missing


def job_records(folder: RunFolder, config: RunConfig, plan: Plan, site: Site) -> list[JobRecord]:
    """Returns the jobs of all members of a run."""
    data_dir = read_data_dir(folder)
    return [JobRecord(folder, config, site, job, data_dir) for job in plan.jobs]


def write_jobs(records: list[JobRecord], script: Callable[[JobRecord], str]) -> None:
    """Writes job.json and job.sh of each member; not atomic, as nothing reads them before the members start."""
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
    """Reads a job.json; its path implies the run folder: <run>/jobs/<member>/job.json."""
    data = read_json(path)
    folder = RunFolder(path.resolve().parents[2])
    config = RunConfig.model_validate(data["config"])
    # Earlier versions stored the site in site.toml only.
    site = Site.model_validate(data["site"]) if "site" in data else read_site(folder.site)
    data_dir = data.get("data_dir")
    return JobRecord(folder, config, site, job_from_json(data["job"]), Path(data_dir) if data_dir else None)
