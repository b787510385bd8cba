"""The flow of one run: plan, stage, launch, collect, store. Each stage is one line here and one folder beside."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from trainmark.collect.build import build_result, config_hash
from trainmark.collect.progress import ProgressReader, mark_queued, read_progress
from trainmark.data.bootstrap import write_bootstraps
from trainmark.data.epochs import steps_per_epoch
from trainmark.data.facts import facts_of
from trainmark.data.folders import Progress, make_missing, open_dataset
from trainmark.launch.launcher import Launcher, ask_queue, preview_scripts
from trainmark.launch.supervise import cancel_jobs, outcome_of_stop, run_jobs
from trainmark.machine.claims import claimed, stop_worker
from trainmark.machine.processes import stoppable
from trainmark.machine.storage import flush_file_system, is_disk_full, keep_reserve, no_space, write_from_reserve
from trainmark.plan.data_check import check_data
from trainmark.plan.estimate import estimate_run
from trainmark.plan.make import make_plan
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.config_file import config_text, site_text
from trainmark.spec.files import write_json, write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, plan_as_json
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import Estimate, MemberProgress
from trainmark.spec.stored_run import begun_with, read_stored, refuse_edits
from trainmark.store.runs import check_runs_dir, keep_richer_result, new_run_folder, origin_of
from trainmark.store.speed import newest_speed

# Called now and then while members train: what they are doing, and the folder in which they do it.
Watch = Callable[[RunFolder, Callable[[], list[MemberProgress]]], None]


class Prepared(NamedTuple):
    """A run that passed every check which needs nothing to be written."""

    config: RunConfig
    plan: Plan
    site: Site
    runs_dir: Path
    launcher: Launcher
    estimate: Estimate


def prepare(choices: RunChoices, site: Site, runs_dir: Path, *, dry_run: bool) -> Prepared:
    """The choices completed and planned; what cannot be run is refused here, with the data that are there looked at."""
    check_runs_dir(runs_dir)
    config, plan = make_plan(choices, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    if not dry_run:  # which works off the cluster, too
        launcher.reach()
    facts = check_data(config, plan, runs_dir)
    estimate = estimate_run(config, plan, site, facts, newest_speed(runs_dir, config))
    return Prepared(config, plan, site, runs_dir, launcher, estimate)


def run(prepared: Prepared, watch: Watch, making: Progress, preparing: Progress) -> Result:
    """A whole run, from the plan to the stored Result."""
    config, plan, site, runs_dir, launcher, _ = prepared
    make_missing(config, runs_dir, making)
    folder = stage(config, plan, site, runs_dir, preparing)
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


def stage(config: RunConfig, plan: Plan, site: Site, runs_dir: Path, progress: Progress | None = None) -> RunFolder:
    """A run folder with everything from which jobs are made: config, site, plan and bootstraps."""
    facts = facts_of(open_dataset(config, runs_dir))
    with new_run_folder(runs_dir, config.workload, datetime.now(UTC)) as folder:
        drawn = (config.ensemble.bootstrap, facts.num_train or 0, config.seed, plan.members)
        for audit in write_bootstraps(folder, *drawn, progress):
            steps_per_epoch(audit["draws"], config.train, plan.workers_per_member)  # refuses too few
        flush_file_system(folder.path)
        write_text(folder.config, config_text(config))
        write_text(folder.site, site_text(site))
        origin = origin_of(config, facts, config_hash(config))
        write_json(folder.origin, origin | {"begun_with": begun_with(config, plan, site)})
        write_json(folder.plan, plan_as_json(plan))  # last: a folder with a plan is a run that can be resumed
    return folder


def preview(prepared: Prepared, most_members: int) -> dict[str, str]:
    """The scripts of the first members, and what would be submitted, by file name; nothing is touched."""
    folder, (config, plan, site, _, launcher, _) = RunFolder((prepared.runs_dir / "RUN").resolve()), prepared
    return preview_scripts(launcher, (JobRecord(folder, config, site, job) for job in plan.jobs), most_members)


def train(config: RunConfig, plan: Plan, site: Site, folder: RunFolder, launcher: Launcher, watch: Watch) -> Result:
    """Every member that is missing has been tried again, and the Result is stored, on a full disk too."""
    with stoppable(outcome_of_stop(folder.path, jobs_go_on=launcher.outlives_us)), claimed(folder):
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
    return [each for job in plan.jobs if (each := JobRecord(folder, config, site, job)).is_missing()]
