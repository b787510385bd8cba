"""The flow of a run: plan, prepare, launch, collect, store; one line here and one package per phase."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trainmark.collect.build import build_result
from trainmark.collect.progress import ProgressReader, mark_queued, read_progress
from trainmark.data.folders import Progress, generate_missing, planned_images
from trainmark.launch.follow import RunJobs, cancel_jobs, follow_runs, raise_first
from trainmark.launch.launcher import Launcher, ask_queue, load_launcher, preview_scripts
from trainmark.machine.claims import stop_claim_holder
from trainmark.machine.storage import write_from_reserve
from trainmark.plan.data_check import check_data, check_features
from trainmark.plan.estimate import estimate_run
from trainmark.plan.make import make_plan
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.files import write_text
from trainmark.spec.job_record import job_records
from trainmark.spec.plan import Plan
from trainmark.spec.result import Result
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import Estimate, MemberProgress
from trainmark.spec.stored_run import Stored, change_data_dir, places_of, read_stored, refuse_edits
from trainmark.store.new_run import StudyMark, check_runs_dir, write_run
from trainmark.store.runs import keep_earlier_result
from trainmark.store.speed import newest_speed

# Called at every poll of a run with its folder and a function that reads its members' progress.
Watch = Callable[[RunFolder, Callable[[], list[MemberProgress]]], None]


class PlannedRun(NamedTuple):
    """A run that passed all checks; nothing is written yet."""

    config: RunConfig
    plan: Plan
    site: Site
    places: Places
    launcher: Launcher
    estimate: Estimate


def plan_run(choices: RunChoices, site: Site, places: Places, *, dry_run: bool) -> PlannedRun:
    """Resolves, plans and checks the choices, including existing data; raises if they cannot be run."""
    check_runs_dir(places.runs)
    config, plan = make_plan(choices, site)
    launcher = load_launcher(config.launch.launcher)
    launcher.check(config, plan, site)
    if not dry_run:  # a dry run also works off the cluster
        launcher.reach()
    facts = check_data(config, plan, places)
    shapes, names = planned_images(config, places.data)
    check_features(config, shapes, names)
    estimate = estimate_run(config, plan, site, facts, newest_speed(places.runs, config), shapes, names)
    return PlannedRun(config, plan, site, places, launcher, estimate)


def preview(planned: PlannedRun, most_members: int) -> dict[str, str]:
    """Returns the scripts of the first members and of the submission by file name; writes nothing."""
    folder, (config, plan, site, _, launcher, _) = RunFolder((planned.places.runs / "RUN").resolve()), planned
    return preview_scripts(launcher, job_records(folder, config, plan, site), most_members)


def prepare(planned: PlannedRun, making: Progress, preparing: Progress, mark: StudyMark | None = None) -> RunFolder:
    """Generates data, draws bootstrap samples and writes the run folder; launches nothing."""
    generate_missing(planned.config, planned.places.data, making)
    return write_run(planned.config, planned.plan, planned.site, planned.places, preparing, mark)


def reopen(folder: RunFolder, making: Progress, data_dir: Path | None = None) -> RunFolder:
    """Checks that a stored run can be resumed unchanged and generates missing data; returns its folder."""
    config, plan, site = read_stored(folder)
    refuse_edits(folder)
    launcher = load_launcher(config.launch.launcher)
    launcher.check(config, plan, site)
    change_data_dir(folder, data_dir)
    if any(record.is_missing() for record in job_records(folder, config, plan, site)):
        launcher.reach()  # not needed to collect finished members
        generate_missing(config, places_of(folder).data, making)
    return folder


def follow(folders: Sequence[RunFolder], watch: Watch) -> Iterator[Result]:
    """Launches members without completion record; yields the stored Result of each run as it ends.

    Runs on this machine take turns in the order of `folders`; jobs of a scheduler are all submitted at once. An error
    ends only its own run and is raised after the others have ended. Close the iterator to stop.
    """
    launchers: dict[str, Launcher] = {}
    runs, errors = list[RunJobs](), list[Exception]()
    for folder in folders:
        try:
            stored = read_stored(folder)
        except TrainmarkError as error:
            errors.append(error)
        else:
            name = stored[0].launch.launcher
            runs.append(_run_jobs(launchers.setdefault(name, load_launcher(name)), watch, folder, *stored))
    yield from follow_runs(runs, collect)
    raise_first([*errors, *(run.error for run in runs if run.error is not None)])


def _run_jobs(launcher: Launcher, watch: Watch, folder: RunFolder, *stored: *Stored) -> RunJobs:
    reader, jobs = ProgressReader(folder, *stored[:2]), job_records(folder, *stored)
    return RunJobs(
        launcher, folder, jobs, lambda: watch(folder, lambda: mark_queued(reader.read(), launcher.last_states(folder)))
    )


def collect(folder: RunFolder) -> Result:
    """Builds the Result and stores it in the run folder."""
    result = keep_earlier_result(folder, build_result(folder))
    write_from_reserve(folder.reserve("result"), lambda: write_text(folder.result, result.as_json()))
    return result


def run(planned: PlannedRun, watch: Watch, making: Progress, preparing: Progress) -> Result:
    """Executes a planned run; returns the stored Result."""
    return [*follow([prepare(planned, making, preparing)], watch)].pop()


def resume(folder: RunFolder, watch: Watch, making: Progress, data_dir: Path | None = None) -> Result:
    """Trains the unfinished members of a run; finished ones are kept."""
    return [*follow([reopen(folder, making, data_dir)], watch)].pop()


def status(folder: RunFolder) -> tuple[list[MemberProgress], str | None]:
    """Returns the progress of each member, and the error if the scheduler is unreachable."""
    answer = ask_queue(folder)
    return read_progress(folder, answer.jobs), answer.error


def cancel(folder: RunFolder) -> bool:
    """Stops the launcher of a run and its jobs; returns whether anything was running."""
    config, plan, site = read_stored(folder)
    launcher = load_launcher(config.launch.launcher)
    was_followed = stop_claim_holder(folder)
    return cancel_jobs(launcher, folder, job_records(folder, config, plan, site), was_followed=was_followed)
