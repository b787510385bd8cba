"""Conducts a study: runs what is missing, point by point and round by round, and reads the outcomes."""

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

from trainmark import pipeline
from trainmark.data.folders import Progress
from trainmark.launch.launcher import Launcher, load_launcher
from trainmark.machine.claims import claimed
from trainmark.machine.stop import raise_if_stopped, stoppable
from trainmark.machine.storage import is_disk_full, no_space
from trainmark.spec.errors import InterruptedRunError, RunFailedError, SchedulerError, StorageError, TrainmarkError
from trainmark.spec.files import write_text
from trainmark.spec.member_state import FINAL_STATES
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.stored_run import read_config_and_plan
from trainmark.studies.find import load_study
from trainmark.studies.make import plan_point, with_points
from trainmark.studies.outcomes import Outcome, Outcomes
from trainmark.studies.record import (
    RESUME,
    PlannedStudyRun,
    StudyFolder,
    StudyRecord,
    read_study,
    read_study_site,
    write_record,
)
from trainmark.studies.stored_outcomes import is_of, mark_of, outcome_of, outcomes_of, provenance_of, reason_of


class Ended(NamedTuple):
    """A run that ended, what it gave, the seconds since it started, and which runs are left."""

    run: PlannedStudyRun
    outcome: Outcome
    seconds: float
    left: Sequence[PlannedStudyRun]


@dataclass(frozen=True)
class Watching:
    """How progress is shown: of the runs, of data, and of the study as runs start and end."""

    # One each per run, which begins anew: some are silent for a while.
    runs: Callable[[], AbstractContextManager[pipeline.Watch]]
    making: Callable[[], Progress]
    preparing: Callable[[], Progress]
    started: Callable[[StudyRecord, PlannedStudyRun], None] = lambda record, run: None
    ended: Callable[[StudyRecord, Ended], None] = lambda record, ended: None


@dataclass
class _Conduct:
    """One process at work on a study."""

    folder: StudyFolder
    record: StudyRecord
    site: Site
    watching: Watching
    tried: set[str] = field(default_factory=set)  # each run is tried once per process
    left: list[PlannedStudyRun] = field(default_factory=list)  # to be run and not ended

    @property
    def places(self) -> Places:
        data_dir = self.record.data_dir
        return Places.of(self.folder.runs_dir, None if data_dir is None else Path(data_dir))

    def run(self) -> None:
        """Runs what has no Result worth keeping and was not tried by this process."""
        runs = [run for run in self.record.runs if run.run_id not in self.tried]
        missing = [run for run in runs if not _is_answered(outcome_of(self.folder, self.record, run))]
        self.tried.update(run.run_id for run in missing)
        self.left = list(missing)
        for batch in [[run] for run in missing] if launcher_of(self.record).one_run_at_a_time else [missing]:
            self._run(batch)

    def _run(self, batch: Sequence[PlannedStudyRun]) -> None:
        """Runs a batch to its end; an error of one run is its outcome, one of the machine ends the study."""
        began, ready = time.monotonic(), dict[str, PlannedStudyRun]()
        for run in batch:
            raise_if_stopped()
            self.watching.started(self.record, run)
            with suppress(OSError):
                self.folder.failure(run.run_id).unlink(missing_ok=True)
            with self._as_outcome([run]):
                ready[self._prepare(run).run_id] = run
        if not ready:
            return
        with self._as_outcome(ready.values()), self.watching.runs() as watch:
            for result in pipeline.follow([self.folder.run(run_id) for run_id in ready], watch):
                run = ready.pop(result.run_id)
                self._tell(run, outcome_of(self.folder, self.record, run), time.monotonic() - began)

    def _prepare(self, run: PlannedStudyRun) -> RunFolder:
        """Returns the run's folder, written or opened again; what cannot go on is set aside."""
        folder, mark = self.folder.run(run.run_id), mark_of(self.record, run)
        if folder.path.is_symlink():
            raise RunFailedError(f"{folder.path} is a link. Put the run's folder in its place, or remove the link.")
        if folder.plan.exists() and is_of(provenance_of(folder), mark) and not _must_train_afresh(folder):
            return pipeline.reopen(folder, self.watching.making())
        if os.path.lexists(folder.path):
            self._set_aside(folder)
        point = self.record.points[run.point].point
        planned = plan_point(self.record, point, run.round, self.site, self.places, dry_run=False)
        return pipeline.prepare(planned, self.watching.making(), self.watching.preparing(), mark)

    def _set_aside(self, folder: RunFolder) -> None:
        """Moves what is in the place of a run out of the runs folder; nothing is deleted."""
        names = (self.folder.interrupted(folder.run_id, number) for number in count(1))
        aside = next(path for path in names if not os.path.lexists(path))
        aside.parent.mkdir(exist_ok=True)
        shutil.move(folder.path, aside)

    def _tell(self, run: PlannedStudyRun, outcome: Outcome, seconds: float) -> None:
        self.left.remove(run)
        self.watching.ended(self.record, Ended(run, outcome, seconds, tuple(self.left)))

    @contextmanager
    def _as_outcome(self, runs: Iterable[PlannedStudyRun]) -> Iterator[None]:
        """Turns an error into the outcome of the runs that have none yet; one of the machine ends the study."""
        try:
            yield
        except (OSError, TrainmarkError) as error:
            if is_of_machine(error):
                raise
            reason = reason_of(error)
            for run in runs:
                with suppress(OSError):  # it is told all the same
                    write_text(self.folder.failure(run.run_id), reason)
                self._tell(run, Outcome(run.round, run.run_id, reason=reason), 0.0)


def _must_train_afresh(folder: RunFolder) -> bool:
    """Whether a run began, is not finished, and would not be what an undisturbed one is.

    Members that are trained later and alone do not share the machine: the speed of the ensemble would be wrong. A
    single member without a checkpoint would train all again as a second attempt, whose times are not combined.
    """
    members = [job.member for job in read_config_and_plan(folder)[1].jobs]
    if not any(folder.num_attempts(member) for member in members):
        return False
    states = {member.state for member in pipeline.status(folder)[0]}
    if states == {"finished"} or not states <= {"waiting", *FINAL_STATES, "stopped"}:
        return False
    return len(members) > 1 or not _has_checkpoint(folder, members[0])


def _has_checkpoint(folder: RunFolder, member: int) -> bool:
    attempts = [folder.attempt(member, number) for number in range(1, folder.num_attempts(member) + 1)]
    return any(each.complete.exists() for attempt in attempts for each in attempt.checkpoints())


def is_of_machine(error: OSError | TrainmarkError) -> bool:
    """Whether an error, or the one of many runs that it tells, is a full or failing disk or a lost scheduler."""
    of_machine = StorageError | SchedulerError
    is_failing = isinstance(error, OSError) and error.errno == errno.EIO
    return isinstance(error, of_machine) or isinstance(error.__cause__, of_machine) or is_failing or is_disk_full(error)


def launcher_of(record: StudyRecord) -> Launcher:
    """Returns the launcher of a study's runs."""
    return load_launcher(record.base.get("launch", {}).get("launcher", "local"))


@contextmanager
def worked_on(folder: StudyFolder) -> Iterator[None]:
    """Holds a study for this process; what stops the work says how to continue it."""
    try:
        with stoppable(""), claimed(folder.as_claimable(), "Study"):
            yield
    except InterruptedRunError as error:
        stopped = re.split("[.;]", str(error))[0]  # what follows is about single runs
        advice = (
            "; submitted jobs continue. Collect them with"
            if launcher_of(read_study(folder)).outlives_us
            else ". Finished runs are kept; continue with"
        )
        raise InterruptedRunError(f"{stopped}{advice}: {RESUME} {folder.path}") from None
    except (OSError, TrainmarkError) as error:
        if is_disk_full(error):
            raise no_space(folder.path, RESUME) from error
        if isinstance(error, TrainmarkError) and is_of_machine(error):
            said = re.sub(rf" Continue with: {RESUME} .*", "", str(error)).rstrip(".")  # that of a study in `all`
            raise type(error)(f"{said}. Continue with: {RESUME} {folder.path}") from error
        raise


def conduct(folder: StudyFolder, watching: Watching) -> Outcomes:
    """Runs whatever is missing, refines the study as long as it wants to, and returns the outcomes."""
    record, site = read_study(folder), read_study_site(folder)
    study = load_study(record.study)
    work = _Conduct(folder, record, site, watching)
    while True:
        work.run()
        outcomes = outcomes_of(folder, work.record)
        if not (more := study.refine(outcomes)):
            return outcomes
        work.record = with_points(work.record, more, site, work.places)
        write_record(folder, work.record)


def _is_answered(outcome: Outcome) -> bool:
    """Whether a run need not be run again: it is complete, or failed as it would again."""
    return outcome.result is not None or outcome.answer is not None
