"""The flow of a run: plan, stage, launch, collect, store. Each stage is one line here and one folder beside."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from trainmark.collect.build import build_result, config_hash
from trainmark.collect.progress import ProgressReader, mark_queued, read_progress
from trainmark.data.bootstrap import write_bootstraps
from trainmark.data.epochs import steps_per_epoch
from trainmark.data.facts import facts_of
from trainmark.data.folders import Progress, generate_missing, open_dataset
from trainmark.launch.follow import RunJobs, cancel_jobs, follow_jobs, outcome_of_stop, raise_first
from trainmark.launch.launcher import Launcher, ask_queue, preview_scripts
from trainmark.machine.claims import stop_claimant
from trainmark.machine.processes import stoppable
from trainmark.machine.storage import flush_file_system, write_from_reserve
from trainmark.plan.data_check import check_data
from trainmark.plan.estimate import estimate_run
from trainmark.plan.make import make_plan
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.config_file import config_text, site_text
from trainmark.spec.files import write_json, write_text
from trainmark.spec.job_record import job_records
from trainmark.spec.plan import Plan, plan_as_json
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.result import Result
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import Estimate, MemberProgress
from trainmark.spec.stored_run import Stored, begun_with, change_data_dir, places_of, read_stored, refuse_edits
from trainmark.store.runs import check_runs_dir, keep_richer_result, new_run_folder, origin_of
from trainmark.store.speed import newest_speed

# Called at every look at a run: its folder, and how to read what its members are doing.
Watch = Callable[[RunFolder, Callable[[], list[MemberProgress]]], None]


class PlannedRun(NamedTuple):
    """A run that passed every check which needs nothing to be written."""

    config: RunConfig
    plan: Plan
    site: Site
    places: Places
    launcher: Launcher
    estimate: Estimate


def plan_run(choices: RunChoices, site: Site, places: Places, *, dry_run: bool) -> PlannedRun:
    """The choices completed and planned; what cannot be run is refused here, with the data that are there looked at."""
    check_runs_dir(places.runs)
    config, plan = make_plan(choices, site)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    if not dry_run:  # which works off the cluster, too
        launcher.reach()
    facts = check_data(config, plan, places)
    estimate = estimate_run(config, plan, site, facts, newest_speed(places.runs, config))
    return PlannedRun(config, plan, site, places, launcher, estimate)


def preview(planned: PlannedRun, most_members: int) -> dict[str, str]:
    """The scripts of the first members, and what would be submitted, by file name; nothing is touched."""
    folder, (config, plan, site, _, launcher, _) = RunFolder((planned.places.runs / "RUN").resolve()), planned
    return preview_scripts(launcher, job_records(folder, config, plan, site), most_members)


def prepare(planned: PlannedRun, making: Progress, preparing: Progress) -> RunFolder:
    """The folder of a run that can be followed: its data are made, its bootstraps drawn; nothing is launched."""
    generate_missing(planned.config, planned.places.data, making)
    return write_run(planned.config, planned.plan, planned.site, planned.places, preparing)


def write_run(config: RunConfig, plan: Plan, site: Site, places: Places, progress: Progress | None = None) -> RunFolder:
    """A run folder with everything from which jobs are made: config, site, plan and bootstraps."""
    facts = facts_of(open_dataset(config, places.data))
    with new_run_folder(places.runs, config.workload, datetime.now(UTC)) as folder:
        drawn = (config.ensemble.bootstrap, facts.num_train or 0, config.seed, plan.members)
        for audit in write_bootstraps(folder, *drawn, progress):
            steps_per_epoch(audit["draws"], config.train, plan.workers_per_member)  # refuses too few
        flush_file_system(folder.path)
        write_text(folder.config, config_text(config))
        write_text(folder.site, site_text(site))
        origin = origin_of(config, facts, config_hash(config))
        write_json(folder.origin, origin | begun_with(config, plan, site, places))
        write_json(folder.plan, plan_as_json(plan))  # last: a folder with a plan is a run that can be resumed
    return folder


def reopen(folder: RunFolder, making: Progress, data_dir: Path | None = None) -> RunFolder:
    """A stored run's folder, if the run can go on as it began; what is lacking of its data is made."""
    config, plan, site = read_stored(folder)
    refuse_edits(folder)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    launcher.check(config, plan, site)
    change_data_dir(folder, data_dir)
    if any(record.is_missing() for record in job_records(folder, config, plan, site)):
        launcher.reach()  # not for finished members: they are collected wherever the folder is
        generate_missing(config, places_of(folder).data, making)
    return folder


def follow(folders: Sequence[RunFolder], watch: Watch) -> Iterator[Result]:
    """The stored Result of each run, as the run ends; members that have no completion record are launched.

    Runs that would share this machine take turns, in the order of `folders`; jobs of a scheduler are all handed in at
    once. An error ends its own run only, and is raised when the others have ended. Close the iterator to stop.
    """
    errors: list[Exception] = []
    stored = [(folder, *read_stored(folder)) for folder in folders]
    for name, group in groupby(stored, lambda run: run[1].launch.launcher):
        launcher: Launcher = LAUNCHERS.load(name)()
        runs = [_missing(launcher, watch, *run) for run in group]
        with stoppable(outcome_of_stop([run.folder for run in runs], jobs_go_on=launcher.outlives_us)):
            yield from follow_jobs(launcher, runs, collect)
        errors += [run.error for run in runs if run.error is not None]
    raise_first(errors)


def _missing(launcher: Launcher, watch: Watch, folder: RunFolder, *stored: *Stored) -> RunJobs:
    reader, jobs = ProgressReader(folder, *stored[:2]), job_records(folder, *stored)
    return RunJobs(
        launcher, folder, jobs, lambda: watch(folder, lambda: mark_queued(reader.read(), launcher.seen(folder)))
    )


def collect(folder: RunFolder) -> Result:
    """The Result, stored in the run's folder."""
    result = keep_richer_result(folder, build_result(folder))
    write_from_reserve(folder.reserve("result"), lambda: write_text(folder.result, result.as_json()))
    return result


def run(planned: PlannedRun, watch: Watch, making: Progress, preparing: Progress) -> Result:
    """A whole run, from the plan to the stored Result."""
    (result,) = follow([prepare(planned, making, preparing)], watch)
    return result


def resume(folder: RunFolder, watch: Watch, making: Progress, data_dir: Path | None = None) -> Result:
    """The run goes on with the members that are missing; finished ones are kept as they are."""
    (result,) = follow([reopen(folder, making, data_dir)], watch)
    return result


def status(folder: RunFolder) -> tuple[list[MemberProgress], str | None]:
    """What each member is doing now, by its files and by the scheduler; and why the latter is silent, if it is."""
    answer = ask_queue(folder)
    return read_progress(folder, answer.jobs), answer.silence


def cancel(folder: RunFolder) -> bool:
    """Whether anything was there to stop: the process that works on the run, and jobs that would outlive it."""
    config, plan, site = read_stored(folder)
    launcher: Launcher = LAUNCHERS.load(config.launch.launcher)()
    was_watched = stop_claimant(folder)
    return cancel_jobs(launcher, folder, job_records(folder, config, plan, site), was_watched=was_watched)
