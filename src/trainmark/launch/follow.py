"""Following the jobs of one or more runs with any launcher: submit what fits, look, retry what failed, stop."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from trainmark.launch.launcher import Launcher
from trainmark.machine.claims import claimed
from trainmark.machine.storage import is_disk_full, keep_reserve, no_space
from trainmark.spec.errors import InterruptedRunError, RunFailedError, SchedulerError, TrainmarkError
from trainmark.spec.job_record import JobRecord, write_jobs
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder

Collect = Callable[[RunFolder], Result]


class RunJobs:
    """The jobs that are missing of one run, from the claim on its folder to their ends."""

    def __init__(
        self, launcher: Launcher, folder: RunFolder, jobs: Sequence[JobRecord], watch: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.watch = watch  # called at every look
        self.error: Exception | None = None  # why the run could not be followed to its end
        self._launcher = launcher
        self._jobs = jobs
        self._waiting: list[JobRecord] = []
        self._tries: Counter[int] = Counter()
        self._claim = ExitStack()
        self._is_claimed = False

    @property
    def is_over(self) -> bool:
        """Whether no job of the run waits or runs, or an error has ended it."""
        return self.error is not None or not (self._waiting or self._launcher.num_running(self.folder))

    def claim(self) -> None:
        """From now on no other process can work on the run."""
        self._claim.enter_context(claimed(self.folder))
        self._is_claimed = True
        keep_reserve(self.folder.reserve("exit"))
        keep_reserve(self.folder.reserve("result"))

    def missing(self) -> list[JobRecord]:
        """The jobs that have no completion record."""
        return [record for record in self._jobs if record.is_missing()]

    def queue(self, under_way: set[tuple[RunFolder, int]]) -> None:
        """What is missing and not under way waits, each job with its files.

        Those under way keep theirs, which their nodes read. Others are written anew: a folder may have been moved.
        """
        self._tries.update(member for folder, member in under_way if folder == self.folder)
        self._waiting = [record for record in self.missing() if record.key not in under_way]
        write_jobs(self._waiting, self._launcher.script)

    def submit(self) -> None:
        """Whatever there is room for is submitted."""
        if self.folder in self._launcher.broken:
            self._waiting = []
        if self._waiting and (submitted := {record.key for record in self._launcher.submit(self._waiting)}):
            self._tries.update(member for _, member in submitted)
            self._waiting = [record for record in self._waiting if record.key not in submitted]

    def take_ended(self) -> None:
        """The ends of jobs are recorded; those that failed and may be tried again wait once more."""
        self._waiting += [record for record in self._launcher.take_ended(self.folder) if self._is_due_again(record)]

    def _is_due_again(self, record: JobRecord) -> bool:
        recorded = record.recorded()
        has_failed = recorded is not None and recorded.may_be_retried
        return has_failed and self._tries[record.job.member] < record.config.launch.attempts

    @contextmanager
    def keeping_errors(self) -> Iterator[None]:
        """Inside, an error ends this run alone; an interrupt, and a bug, end all."""
        try:
            yield
        except InterruptedRunError:
            raise
        except (OSError, TrainmarkError) as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """The error has ended the run; jobs that do not outlive us are stopped."""
        self.error = self.error or error
        with suppress(OSError):  # such as a disk that is still full
            self._stop()

    def _stop(self) -> None:
        if not self._launcher.outlives_us:
            self._launcher.cancel(self.folder)

    def end(self, collect: Collect) -> Result | None:
        """The Result of the run that is over, if there is one: on a full disk too, but not after other errors."""
        result = None
        try:
            if self._is_claimed and (self.error is None or is_disk_full(self.error)):
                with self.keeping_errors():
                    result = collect(self.folder)
        finally:
            self._claim.close()
        if isinstance(self.error, OSError) and is_disk_full(self.error):
            cause, self.error = self.error, no_space(self.folder.path)
            self.error.__cause__ = cause
        return result

    def leave(self) -> None:
        """Nothing is followed any more: jobs that do not outlive us have been stopped, the claim is given up."""
        try:
            self._stop()
        finally:
            self._claim.close()


def follow_jobs(launcher: Launcher, runs: Sequence[RunJobs], collect: Collect) -> Iterator[Result]:
    """The Result of each run, as all its jobs have ended, good or bad; a run's `error` says why it has none.

    Whatever else is raised, by a watch or by an interrupt, ends the following of all runs: then jobs that end with
    this process are stopped; those that outlive it go on.
    """
    waiting, followed = list(runs), list[RunJobs]()
    try:
        while waiting or followed:
            num_next = len(waiting) if not launcher.one_run_at_a_time else 0 if followed else 1
            begun, waiting = waiting[:num_next], waiting[num_next:]
            followed += begun
            _begin(launcher, begun)
            _look(launcher, followed)
            for run in [run for run in followed if run.is_over]:
                result = run.end(collect)
                followed.remove(run)
                if result is not None:
                    yield result
            if followed:
                time.sleep(launcher.poll_s)
    finally:
        with ExitStack() as left:  # each of them, whatever the others raise
            for run in followed:
                left.callback(run.leave)


def _begin(launcher: Launcher, runs: Sequence[RunJobs]) -> None:
    """The runs are claimed; jobs of theirs that an earlier process left in a scheduler are taken over at once."""
    for run in runs:
        with run.keeping_errors():
            run.claim()
    claimed_runs = [run for run in runs if run.error is None]
    try:
        adopted = launcher.adopt([record for run in claimed_runs for record in run.missing()])
    except (OSError, TrainmarkError) as error:
        if isinstance(error, InterruptedRunError):
            raise
        for run in claimed_runs:
            run.fail(error)
        return
    for run in claimed_runs:
        with run.keeping_errors():
            run.queue({record.key for record in adopted})


def _look(launcher: Launcher, runs: Sequence[RunJobs]) -> None:
    """One look at all of them, before and after which each has its turn."""
    for run in runs:
        if not run.is_over:
            with run.keeping_errors():
                run.submit()
    launcher.look()
    for run in runs:
        if not run.is_over:
            with run.keeping_errors():
                run.take_ended()
        if run.error is None:
            run.watch()


def raise_first(errors: Sequence[Exception]) -> None:
    """Raises the error of a single run as it is, and of several the first, with their number."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise RunFailedError(f"{len(errors)} runs could not be followed to their end; the first: {errors[0]}")


def outcome_of_stop(folders: Sequence[RunFolder], *, jobs_go_on: bool) -> str:
    """What follows «Stopped by …»."""
    path, more = folders[0].path, f" (and so for {len(folders) - 1} more)" if len(folders) > 1 else ""
    if jobs_go_on:
        return (
            f"; jobs that were submitted go on. See them with: trainmark status {path}; stop them with: trainmark "
            f"cancel {path}; watch and collect with: trainmark resume {path}{more}"
        )
    return f". Finished members are kept; go on with: trainmark resume {path}{more}"


def cancel_jobs(launcher: Launcher, folder: RunFolder, jobs: list[JobRecord], *, was_watched: bool) -> bool:
    """Whether there was anything to stop; raises, and says what was done, if the scheduler is unreachable.

    Jobs that end with the process that started them have ended with it.
    """
    if not launcher.outlives_us:
        return was_watched
    try:
        going_on = launcher.adopt([record for record in jobs if record.is_missing()])
        launcher.cancel(folder)
    except SchedulerError as error:
        done = "The process that watched the run was stopped, but jobs" if was_watched else "Jobs"
        raise RunFailedError(
            f"{done} were not cancelled, and may go on: {error}. Once Slurm answers: trainmark cancel {folder.path}"
        ) from None
    return was_watched or bool(going_on)
