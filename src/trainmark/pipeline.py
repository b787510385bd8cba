"""The flow of one run: plan, stage, launch, collect, store. Each stage is one line here and one folder beside."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from trainmark.collect.build import build_result, config_hash
from trainmark.collect.progress import ProgressReader, mark_queued, read_progress
from trainmark.data.bootstrap import write_bootstraps
from trainmark.data.epochs import steps_per_epoch
from trainmark.data.facts import differences, facts_of
from trainmark.data.folders import Progress, make_missing, open_dataset
from trainmark.launch.interrupts import cancel_jobs, outcome_of_stop
from trainmark.launch.launcher import Launcher, ask_queue
from trainmark.launch.supervise import run_jobs
from trainmark.machine.claims import claimed, stop_worker
from trainmark.machine.describe import describe_machine
from trainmark.machine.software import code_version, describe_software
from trainmark.machine.stopping import stoppable
from trainmark.machine.storage import check_space, is_disk_full, keep_reserve, no_space, write_from_reserve
from trainmark.plan.make import make_plan
from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import config_text, site_text
from trainmark.spec.files import write_json, write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, plan_as_json
from trainmark.spec.progress import MemberProgress
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.stored_run import begun_with, read_stored, refuse_edits
from trainmark.spec.workload import DataFacts
from trainmark.store.runs import keep_richer_result, new_run_folder
from trainmark.workloads.find import find_size

SPACE_FOR_RECORDS = 4 * 2**20

# Called now and then while members train: what they are doing, and the folder in which they do it.
Watch = Callable[[RunFolder, Callable[[], list[MemberProgress]]], None]


def run(config: RunConfig, site: Site, runs_dir: Path, watch: Watch, making: Progress) -> Result:
    """A whole run, from choices to the stored Result."""
    config, plan = make_plan(config, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    launcher.reach()
    make_missing(config, runs_dir, making)
    folder = stage(config, plan, site, runs_dir)
    return train(config, plan, site, folder, launcher, watch)


def resume(folder: RunFolder, watch: Watch, making: Progress) -> Result:
    """The run goes on with the members that are missing; finished ones are kept as they are."""
    config, plan, site = read_stored(folder)
    refuse_edits(folder)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    if _missing(folder, config, plan, site):  # finished members are collected wherever the folder is
        launcher.reach()
        make_missing(config, folder.path.parent, making)
    return train(config, plan, site, folder, launcher, watch)


def stage(config: RunConfig, plan: Plan, site: Site, runs_dir: Path) -> RunFolder:
    """A run folder with everything from which jobs are made: config, site, plan and bootstraps."""
    facts = facts_of(open_dataset(config, runs_dir))
    num_samples = facts.num_train or 0
    check_space(runs_dir, needed_bytes=plan.members * num_samples + SPACE_FOR_RECORDS)
    with new_run_folder(runs_dir, config.workload, datetime.now(UTC)) as folder:
        audits = write_bootstraps(folder, config.ensemble.bootstrap, num_samples, config.seed, plan.members)
        for audit in audits:
            steps_per_epoch(audit["draws"], config.train, plan.workers_per_member)  # refuses too few
        write_text(folder.config, config_text(config))
        write_text(folder.site, site_text(site))
        write_json(folder.origin, {**_origin(config, facts), "begun_with": begun_with(config, plan, site)})
        write_json(folder.plan, plan_as_json(plan))  # last: a folder with a plan is a run that can be resumed
    return folder


def preview(config: RunConfig, site: Site, runs_dir: Path) -> tuple[RunConfig, Plan, dict[str, str]]:
    """What `run` would do: the completed config, the plan and all scripts by file name; nothing is touched."""
    config, plan = make_plan(config, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    folder = RunFolder((runs_dir / "RUN").resolve())
    records = [JobRecord(folder, config, site, job) for job in plan.jobs]
    scripts = {folder.name_of(folder.job_script(record.job.member)): launcher.script(record) for record in records}
    return config, plan, launcher.batch_scripts(records) | scripts


def train(config: RunConfig, plan: Plan, site: Site, folder: RunFolder, launcher: Launcher, watch: Watch) -> Result:
    """Every member that is missing has been tried again, and the Result is stored, on a full disk too."""
    with claimed(folder):
        try:
            launch(config, plan, site, folder, launcher, watch)
        except OSError as error:
            if not is_disk_full(error):
                raise
            collect(folder)
            raise no_space(folder.path) from error
        return collect(folder)


def launch(config: RunConfig, plan: Plan, site: Site, folder: RunFolder, launcher: Launcher, watch: Watch) -> None:
    """Every member that has no completion record yet has been tried again."""
    keep_reserve(folder.reserve("exit"))
    keep_reserve(folder.reserve("result"))
    missing = _missing(folder, config, plan, site)
    reader = ProgressReader(folder, config, plan)
    with stoppable(outcome_of_stop(folder.path, jobs_go_on=launcher.outlives_us)):
        run_jobs(launcher, missing, lambda: watch(folder, lambda: mark_queued(reader.read(), launcher.seen())))


def status(folder: RunFolder) -> tuple[list[MemberProgress], str | None]:
    """What each member is doing now, by its files and by the scheduler's word; and why that is missing, if it is."""
    answer = ask_queue(folder)
    return read_progress(folder, answer.jobs), answer.silence


def cancel(folder: RunFolder) -> bool:
    """Whether anything was there to stop: the process that works on the run, and jobs that would outlive it."""
    config, plan, site = read_stored(folder)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    was_watched = stop_worker(folder)
    return cancel_jobs(launcher, _missing(folder, config, plan, site), folder.path, was_watched=was_watched)


def collect(folder: RunFolder) -> Result:
    """The Result, stored in the run's folder."""
    result = keep_richer_result(folder, build_result(folder))
    write_from_reserve(folder.reserve("result"), lambda: write_text(folder.result, result.as_json()))
    return result


def _missing(folder: RunFolder, config: RunConfig, plan: Plan, site: Site) -> list[JobRecord]:
    return [each for job in plan.jobs if not (each := JobRecord(folder, config, site, job)).is_finished()]


def _origin(config: RunConfig, facts: DataFacts) -> dict[str, object]:
    unlike = differences(find_size(config.workload, config.size), config.dataset, facts)
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "software": describe_software(),
        "data": {**asdict(facts), "unlike_the_size": unlike},
        "provenance": {"code_version": code_version(), "config_hash": config_hash(config)},
    }
