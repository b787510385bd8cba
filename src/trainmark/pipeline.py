"""The flow of one run: plan, stage, launch, collect, store. Each stage is one line here and one folder beside."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from trainmark.collect.build import build_result, config_hash, is_being_worked_on
from trainmark.collect.progress import ProgressReader
from trainmark.data.bootstrap import write_bootstraps
from trainmark.data.epochs import steps_per_epoch
from trainmark.launch.interrupts import interruptible
from trainmark.launch.launcher import Launcher
from trainmark.launch.supervise import run_jobs
from trainmark.machine.describe import describe_machine
from trainmark.machine.process import this_process
from trainmark.machine.software import code_version, describe_software
from trainmark.machine.storage import check_space, keep_reserve, write_from_reserve
from trainmark.plan.make import make_plan
from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import config_text, read_config
from trainmark.spec.errors import RunFailedError
from trainmark.spec.files import read_json, write_json, write_text
from trainmark.spec.job_record import JobRecord, write_job_record
from trainmark.spec.plan import Plan, plan_as_json, plan_from_json
from trainmark.spec.progress import MemberProgress
from trainmark.spec.registries import DATASETS, LAUNCHERS
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.store.runs import new_run_folder
from trainmark.workloads.find import find_size

SPACE_FOR_RECORDS = 4 * 2**20

# Called now and then while members train: what they are doing, and the folder in which they do it.
Watch = Callable[[RunFolder, Callable[[], list[MemberProgress]]], None]


def run(config: RunConfig, site: Site, runs_dir: Path, watch: Watch) -> Result:
    """A whole run, from choices to the stored Result."""
    config, plan = make_plan(config, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(plan)
    folder = stage(config, plan, launcher, runs_dir)
    launch(config, plan, folder, launcher, watch)
    return collect(folder)


def resume(folder: RunFolder, watch: Watch) -> Result:
    """The run goes on with the members that are missing; finished ones are kept as they are."""
    if is_being_worked_on(folder):
        pid, host = (read_json(folder.launcher)[key] for key in ("pid", "host"))
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {pid} on {host}. Wait for it or stop it; "
            f"if it is long gone, remove {folder.launcher}."
        )
    config, plan = read_config(folder.config), plan_from_json(read_json(folder.plan))
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(plan)
    folder.result.unlink(missing_ok=True)  # what it says is about to change; the events it came from stay
    launch(config, plan, folder, launcher, watch)
    return collect(folder)


def stage(config: RunConfig, plan: Plan, launcher: Launcher, runs_dir: Path) -> RunFolder:
    """A run folder with everything that the jobs need: config, plan, bootstraps, job records and scripts."""
    size = find_size(config.workload, config.size)
    dataset = DATASETS.load(size.dataset)
    num_samples = dataset(dataset.Settings.model_validate(config.data)).num_samples("train")
    check_space(runs_dir, needed_bytes=plan.members * num_samples + SPACE_FOR_RECORDS)
    with new_run_folder(runs_dir, config.workload, datetime.now(UTC)) as folder:
        keep_reserve(folder.reserve)
        audits = write_bootstraps(folder, config.ensemble.bootstrap, num_samples, config.seed, plan.members)
        for audit in audits:
            steps_per_epoch(audit["draws"], plan.workers_per_member, config.train.batch_size)  # refuses too few
        for job in plan.jobs:
            record = JobRecord(folder, config, job)
            write_job_record(record)
            write_text(folder.job_script(job.member), launcher.script(record))
        write_text(folder.config, config_text(config))
        write_json(folder.origin, _origin(config))
        write_json(folder.plan, plan_as_json(plan))  # last: a folder with a plan is a run that can be resumed
    return folder


def preview(config: RunConfig, site: Site, runs_dir: Path) -> tuple[RunConfig, Plan, list[str]]:
    """What `run` would do: the completed config, the plan and each job's script; nothing is touched."""
    config, plan = make_plan(config, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(plan)
    folder = RunFolder((runs_dir / "RUN").resolve())
    return config, plan, [launcher.script(JobRecord(folder, config, job)) for job in plan.jobs]


def launch(config: RunConfig, plan: Plan, folder: RunFolder, launcher: Launcher, watch: Watch) -> None:
    """Every member that has no completion record yet has been tried once more."""
    missing = [JobRecord(folder, config, job) for job in plan.jobs if not _is_finished(folder, job.member)]
    reader = ProgressReader(folder, config, plan)
    write_json(folder.launcher, this_process())
    try:
        with interruptible(folder.path):
            run_jobs(launcher, missing, lambda: watch(folder, reader.read))
    finally:
        folder.launcher.unlink(missing_ok=True)


def collect(folder: RunFolder) -> Result:
    """The Result, stored in the run's folder."""
    result = build_result(folder)
    write_from_reserve(folder.reserve, lambda: write_text(folder.result, result.as_json()))
    return result


def _is_finished(folder: RunFolder, member: int) -> bool:
    attempts = folder.num_attempts(member)
    return attempts > 0 and folder.attempt(member, attempts).done.exists()


def _origin(config: RunConfig) -> dict[str, object]:
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "software": describe_software(),
        "provenance": {"code_version": code_version(), "config_hash": config_hash(config)},
    }
