"""Conducts a study: runs what is missing, point by point and round by round, and reads the outcomes."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainmark import pipeline
from trainmark.data.folders import Progress
from trainmark.launch.launcher import Launcher
from trainmark.machine.claims import claimed
from trainmark.machine.stop import raise_if_stopped, stoppable
from trainmark.machine.storage import is_disk_full
from trainmark.plan.resolve import read_site_file
from trainmark.spec.errors import InterruptedRunError, SchedulerError, StorageError, TrainmarkError
from trainmark.spec.registries import LAUNCHERS, STUDIES
from trainmark.spec.result import Result
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.store.new_run import StudyMark
from trainmark.store.runs import read_result
from trainmark.studies.make import plan_point, with_points
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.record import PlannedStudyRun, StudyFolder, StudyRecord, read_study, write_record
from trainmark.studies.study import Study


@dataclass(frozen=True)
class Watching:
    """How progress is shown: of the runs, of data, and of the study as runs start and end."""

    # One each per run, which begins anew: some are silent for a while.
    runs: Callable[[], AbstractContextManager[pipeline.Watch]]
    making: Callable[[], Progress]
    preparing: Callable[[], Progress]
    started: Callable[[StudyRecord, PlannedStudyRun], None] = lambda record, run: None
    ended: Callable[[StudyRecord, PlannedStudyRun, Outcome, float], None] = lambda record, run, outcome, seconds: None


@dataclass
class _Conduct:
    """One process at work on a study."""

    folder: StudyFolder
    record: StudyRecord
    site: Site
    watching: Watching
    tried: set[str] = field(default_factory=set)  # each run is tried once per process

    @property
    def places(self) -> Places:
        data_dir = self.record.data_dir
        return Places.of(self.folder.runs_dir, None if data_dir is None else Path(data_dir))

    def run(self) -> None:
        """Runs what has no Result worth keeping and was not tried by this process."""
        runs = [run for run in self.record.runs if run.run_id not in self.tried]
        missing = [run for run in runs if not _is_answered(outcome_of(self.folder, run))]
        self.tried.update(run.run_id for run in missing)
        for batch in [[run] for run in missing] if self._one_at_a_time() else [missing]:
            self._run(batch)

    def _one_at_a_time(self) -> bool:
        name = self.record.base.get("launch", {}).get("launcher", "local")
        launcher: Launcher = LAUNCHERS.load(name)()
        return launcher.one_run_at_a_time

    def _run(self, batch: Sequence[PlannedStudyRun]) -> None:
        """Runs a batch to its end; an error of one run is its outcome, one of the machine ends the study."""
        began, ready = time.monotonic(), dict[str, PlannedStudyRun]()
        for run in batch:
            raise_if_stopped()
            self.watching.started(self.record, run)
            with self._as_outcome([run]):
                ready[self._prepare(run).run_id] = run
        if not ready:
            return
        with self._as_outcome(list(ready.values())), self.watching.runs() as watch:
            for result in pipeline.follow([self.folder.run(run_id) for run_id in ready], watch):
                self._tell(ready.pop(result.run_id), time.monotonic() - began)

    def _prepare(self, run: PlannedStudyRun) -> RunFolder:
        """Returns the run's folder, written or opened again."""
        folder = self.folder.run(run.run_id)
        if folder.plan.exists():
            return pipeline.reopen(folder, self.watching.making())
        if folder.path.exists():  # killed before anything was started
            shutil.rmtree(folder.path)
        point = self.record.points[run.point].point
        planned = plan_point(self.record, point, run.round, self.site, self.places, dry_run=False)
        mark = StudyMark(run.run_id, self.record.study_id, point.label, run.round)
        return pipeline.prepare(planned, self.watching.making(), self.watching.preparing(), mark)

    def _tell(self, run: PlannedStudyRun, seconds: float) -> None:
        self.watching.ended(self.record, run, outcome_of(self.folder, run), seconds)

    @contextmanager
    def _as_outcome(self, runs: Sequence[PlannedStudyRun]) -> Iterator[None]:
        """Turns an error of runs into their outcome; full disks and lost schedulers end the study."""
        try:
            yield
        except (StorageError, SchedulerError):
            raise
        except TrainmarkError as error:
            if is_disk_full(error):
                raise
            for run in runs:
                if outcome_of(self.folder, run).result is None:
                    outcome = Outcome(run.round, run.run_id, reason=str(error))
                    self.watching.ended(self.record, run, outcome, 0.0)


def conduct(folder: StudyFolder, watching: Watching) -> Outcomes:
    """Runs whatever is missing, refines the study as long as it wants to, and returns the outcomes."""
    try:
        with stoppable(""), claimed(folder.as_claimable()):
            return _conduct(folder, watching)
    except InterruptedRunError as error:
        stopped = str(error).split(".")[0].split(";")[0]
        raise InterruptedRunError(
            f"{stopped}. Finished runs are kept; continue with: trainmark study resume {folder.path}"
        ) from None


def _conduct(folder: StudyFolder, watching: Watching) -> Outcomes:
    record, site = read_study(folder), read_site_file(folder.site)
    study: Study = STUDIES.load(record.study)
    work = _Conduct(folder, record, site, watching)
    while True:
        work.run()
        outcomes = outcomes_of(folder, work.record)
        if not (more := study.refine(outcomes)):
            return outcomes
        work.record = with_points(work.record, more, site, work.places)
        write_record(folder, work.record)


def outcomes_of(folder: StudyFolder, record: StudyRecord) -> Outcomes:
    """Reads the outcomes of all points from their runs' folders."""
    points = tuple(
        PointOutcomes(
            planned.point, tuple(outcome_of(folder, run) for run in record.runs_of(number)), refused=planned.refused
        )
        for number, planned in enumerate(record.points)
    )
    site = read_site_file(folder.site)
    return Outcomes(points, record.repeats, record.max_spread, record.axes, record.base, site)


def outcome_of(folder: StudyFolder, run: PlannedStudyRun) -> Outcome:
    """Reads the outcome of one run; only a complete Result counts."""
    run_folder = folder.run(run.run_id)
    try:
        result = read_result(run_folder)
    except TrainmarkError as error:
        return Outcome(run.round, run.run_id, reason=str(error), folder=run_folder)
    if result is None:
        return Outcome(run.round, run.run_id, reason="not run yet", folder=run_folder)
    if result.state == "complete":
        return Outcome(run.round, run.run_id, result, folder=run_folder)
    return Outcome(run.round, run.run_id, reason=_failure_of(result), folder=run_folder)


def _failure_of(result: Result) -> str:
    member = next(member for member in result.members if member.state != "finished")
    return f"{member.state}: {member.reason or 'no reason was recorded'}"


def _is_answered(outcome: Outcome) -> bool:
    """Whether a run need not be run again: it is complete, or does not fit into memory."""
    return outcome.result is not None or outcome.is_out_of_memory
