"""Following the jobs of one or more runs with any launcher: submit, poll, retry, stop."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress

from trainmark.launch.launcher import Launcher
from trainmark.machine.claims import claimed
from trainmark.machine.stop import pause, raise_if_stopped, stoppable
from trainmark.machine.storage import is_disk_full, keep_reserve, no_space
from trainmark.spec.errors import RunFailedError, SchedulerError, StorageError, TrainmarkError
from trainmark.spec.job_record import JobRecord, write_jobs
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder

Collect = Callable[[RunFolder], Result]


class RunJobs:
    """The missing jobs of one run, from claiming its folder to their end."""

    def __init__(
        self, launcher: Launcher, folder: RunFolder, jobs: Sequence[JobRecord], watch: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.watch = watch  # called at every poll
        self.error: Exception | None = None  # why following the run failed
        self.launcher = launcher
        self._jobs = jobs
        self._waiting: list[JobRecord] = []
        self._tries: Counter[int] = Counter()
        self._claim = ExitStack()
        self._is_claimed = False

    @property
    def is_over(self) -> bool:
        """Whether no job of the run is waiting or running, or the run has failed."""
        return self.error is not None or not (self._waiting or self.launcher.num_running(self.folder))

    def claim(self) -> None:
        """Claims the run: no other process can work on it."""
        self._claim.enter_context(claimed(self.folder))
        self._is_claimed = True
        keep_reserve(self.folder.reserve("exit"))
        keep_reserve(self.folder.reserve("result"))

    def missing(self) -> list[JobRecord]:
        """The jobs that have no completion record."""
        return [record for record in self._jobs if record.is_missing()]

    def queue(self, under_way: set[tuple[RunFolder, int]]) -> None:
        """Queues the jobs that are missing and not under way, and writes their files.

        Jobs under way keep their files, which nodes are reading. The others' are rewritten: the folder may have moved.
        """
        self._tries.update(member for folder, member in under_way if folder == self.folder)
        self._waiting = [record for record in self.missing() if record.key not in under_way]
        write_jobs(self._waiting, self.launcher.script)

    def submit(self) -> None:
        """Submits as many waiting jobs as the launcher takes."""
        if self.folder in self.launcher.broken:
            self._waiting = []
        if self._waiting and (submitted := {record.key for record in self.launcher.submit(self._waiting)}):
            self._tries.update(member for _, member in submitted)
            self._waiting = [record for record in self._waiting if record.key not in submitted]

    def take_ended(self) -> None:
        """Records the jobs that ended, and queues failed ones for another attempt if any is left."""
        self._waiting += [record for record in self.launcher.take_ended(self.folder) if self._is_due_again(record)]

    def _is_due_again(self, record: JobRecord) -> bool:
        recorded = record.recorded()
        has_failed = recorded is not None and recorded.may_be_retried
        return has_failed and self._tries[record.job.member] < record.config.launch.attempts

    @contextmanager
    def isolating_errors(self) -> Iterator[None]:
        """Limits an error to this run; interrupts and bugs stop all runs."""
        try:
            yield
        except (OSError, TrainmarkError) as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Records the run's first error and stops jobs that do not outlive this process."""
        self.error = self.error or error
        with suppress(OSError):  # the disk may still be full
            self._stop()

    def _stop(self) -> None:
        if not self.launcher.outlives_us:
            self.launcher.cancel(self.folder)

    def end(self, collect: Collect) -> Result | None:
        """Returns the Result of a run that is over, also on a full disk; None after other errors."""
        result = None
        try:
            if self._is_claimed and (self.error is None or is_disk_full(self.error)):
                with self.isolating_errors():
                    result = collect(self.folder)
        finally:
            self._claim.close()
        if isinstance(self.error, OSError) and is_disk_full(self.error):
            cause, self.error = self.error, no_space(self.folder.path)
            self.error.__cause__ = cause
        return result

    def leave(self) -> None:
        """Stops following: stops jobs that do not outlive this process and releases the claim."""
        try:
            self._stop()
        finally:
            self._claim.close()


def follow_runs(runs: Sequence[RunJobs], collect: Collect) -> Iterator[Result]:
    """Yields the Result of each run as it ends, launcher by launcher."""
    for launcher in dict.fromkeys(run.launcher for run in runs):
        alike = [run for run in runs if run.launcher is launcher]
        message = stop_message([run.folder for run in alike], launcher)
        with closing(follow_jobs(launcher, alike, collect)) as results:
            while (result := _next(results, message)) is not None:
                yield result


def _next(results: Iterator[Result], message: str) -> Result | None:
    """Returns the next Result; signals are handled in here only, not while the caller works on the last one."""
    with stoppable(message):
        return next(results, None)


def follow_jobs(launcher: Launcher, runs: Sequence[RunJobs], collect: Collect) -> Generator[Result, None, None]:
    """Yields the Result of each run once all its jobs have ended; a run's `error` says why it has none.

    Anything raised by a watch or an interrupt stops following all runs: jobs that end with this process are stopped,
    those that outlive it continue.
    """
    waiting, followed = list(runs), list[RunJobs]()
    try:
        while waiting or followed:
            raise_if_stopped()
            num_next = len(waiting) if not launcher.one_run_at_a_time else 0 if followed else 1
            begun, waiting = waiting[:num_next], waiting[num_next:]
            followed += begun
            _begin(launcher, begun)
            _poll(launcher, followed)
            for run in [run for run in followed if run.is_over]:
                result = run.end(collect)
                followed.remove(run)
                if result is not None:
                    yield result
            if followed:
                pause(launcher.poll_s)
    finally:
        with ExitStack() as cleanup:  # each run, whatever the others raise
            for run in followed:
                cleanup.callback(run.leave)


def _begin(launcher: Launcher, runs: Sequence[RunJobs]) -> None:
    """Claims the runs and adopts jobs that an earlier process left in a scheduler."""
    for run in runs:
        with run.isolating_errors():
            run.claim()
    claimed_runs = [run for run in runs if run.error is None]
    try:
        adopted = launcher.adopt([record for run in claimed_runs for record in run.missing()])
    except (OSError, TrainmarkError) as error:
        for run in claimed_runs:
            run.fail(error)
        return
    for run in claimed_runs:
        with run.isolating_errors():
            run.queue({record.key for record in adopted})


def _poll(launcher: Launcher, runs: Sequence[RunJobs]) -> None:
    """Submits jobs of each run, polls the launcher once for all runs, and takes the jobs that ended."""
    for run in runs:
        if not run.is_over:
            with run.isolating_errors():
                run.submit()
    launcher.poll()
    for run in runs:
        if not run.is_over:
            with run.isolating_errors():
                run.take_ended()
        if run.error is None:
            run.watch()


def raise_first(errors: Sequence[Exception]) -> None:
    """Raises a single run's error as it is; of several their number from the first, as its type if all share it.

    Storage and scheduler come before errors of single runs: they concern all runs.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        first = min(errors, key=lambda error: not isinstance(error, StorageError | SchedulerError))
        is_shared = isinstance(first, TrainmarkError) and {type(error) for error in errors} == {type(first)}
        kind = type(first) if is_shared else RunFailedError
        raise kind(f"{len(errors)} runs could not be followed to the end; the first: {first}") from first


def stop_message(folders: Sequence[RunFolder], launcher: Launcher) -> str:
    """Returns the text after «Stopped by …»."""
    path, more = folders[0].path, f" (likewise for {len(folders) - 1} more)" if len(folders) > 1 else ""
    if launcher.outlives_us:
        return (
            f"; submitted jobs continue. See them with: trainmark status {path}; stop them with: trainmark "
            f"cancel {path}; follow and collect them with: trainmark resume {path}{more}"
        )
    return f". Finished members are kept; continue with: trainmark resume {path}{more}"


def cancel_jobs(launcher: Launcher, folder: RunFolder, jobs: list[JobRecord], *, was_followed: bool) -> bool:
    """Cancels a run's jobs; returns whether there were any; raises if the scheduler is unreachable.

    Jobs that do not outlive their launcher have ended with it.
    """
    if not launcher.outlives_us:
        return was_followed
    try:
        adopted = launcher.adopt([record for record in jobs if record.is_missing()])
        launcher.cancel(folder)
    except SchedulerError as error:
        done = "The process following the run was stopped, but its jobs" if was_followed else "Jobs"
        raise RunFailedError(
            f"{done} were not cancelled and may continue: {error}. Once Slurm is reachable: trainmark cancel "
            f"{folder.path}"
        ) from None
    return was_followed or bool(adopted)
