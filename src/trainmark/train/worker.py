"""The rank process: sets itself up, trains its part of one member, and exits with a code the launcher can explain."""

import argparse
import faulthandler
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType

from trainmark.machine.instructions import avoid_broken_amx, separate_inductor_caches
from trainmark.machine.processes import exit_after_parent, exit_with_parent, exit_with_stdin
from trainmark.machine.storage import is_disk_full, read_when_visible
from trainmark.spec.errors import StorageError, TrainmarkError
from trainmark.spec.events import Failed, Finished
from trainmark.spec.failures import DISK_FULL, FAILED, STOPPED
from trainmark.spec.job_record import read_job_record
from trainmark.train.end_request import EndRequest
from trainmark.train.event_log import EventLog
from trainmark.train.out_of_memory import explain_out_of_memory
from trainmark.train.placement import bind_rank, find_rank


class StoppedError(BaseException):
    """The rank was asked to end (SIGTERM); not an Exception, so that nothing swallows it."""


def main(argv: list[str] | None = None) -> None:
    """Runs one rank; the exit code states the outcome."""
    arguments = _parse(argv)
    if arguments.supervised_by is not None:
        # An orphan would keep using cores that the next measurement takes for free.
        exit_with_parent(arguments.supervised_by, signal.SIGKILL)
    if arguments.end_with_input:
        exit_with_stdin()
    faulthandler.register(signal.SIGUSR1)  # for hangs: writes the stacks of all threads to the rank's log
    signal.signal(signal.SIGTERM, _on_sigterm)
    request = EndRequest()
    signal.signal(signal.SIGUSR2, request.on_signal)
    log: EventLog | None = None
    failure_mark: Path | None = None
    try:
        record = read_when_visible(lambda: read_job_record(arguments.job), arguments.job.parent)
        attempt = record.folder.attempt(record.job.member, arguments.attempt)
        failure_mark = attempt.failed if arguments.rank == "mpi" else None
        rank = find_rank(arguments.rank, record.job.ranks, os.environ)
        if arguments.own_log:
            redirect_output(attempt.rank_log(rank.rank))
        log = EventLog(attempt.rank_events(rank.rank))
        rank = bind_rank(rank, record, assigned_by=arguments.rank)  # before torch is imported: threads inherit it
        if arguments.rank == "mpi":
            exit_after_parent()
        avoid_broken_amx()
        separate_inductor_caches()
        from trainmark.train.engine import RankContext
        from trainmark.train.member import train_member

        context = RankContext(record, rank, attempt, log)
        train_member(context, arguments.attempt, request, waits_for_start=arguments.wait_for_start)
        log.write(Finished())
    except BaseException as error:  # noqa: BLE001  every failure must be recorded
        _end(error, log, failure_mark)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainmark.train.worker", description=__doc__)
    parser.add_argument("job", type=Path, help="the member's job.json")
    parser.add_argument(
        "--rank",
        required=True,
        help="the rank of this process in its member: a number, or the program that assigns it: slurm, mpi",
    )
    parser.add_argument("--attempt", type=int, required=True, help="number of the attempt at this member, from 1")
    parser.add_argument("--wait-for-start", action="store_true", help="wait at the start barrier")
    parser.add_argument("--own-log", action="store_true", help="print into the attempt's rank-R.log")
    parser.add_argument("--supervised-by", type=int, metavar="PID", help="exit when this launcher dies")
    parser.add_argument("--end-with-input", action="store_true", help="exit when standard input is closed")
    return parser.parse_args(argv)


def redirect_output(path: Path) -> None:
    """Redirects stdout and stderr of this process, including those of C libraries, to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)


def _on_sigterm(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would interrupt the shutdown
    raise StoppedError


def _end(error: BaseException, log: EventLog | None, failure_mark: Path | None) -> None:
    """Records the error in events and log, and exits at once: destroying a broken process group can hang."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = _exit_code(error)
    text = "".join(traceback.format_exception(error))
    message = "stopped by SIGTERM" if code == STOPPED else _one_line(error)
    if failure_mark is not None:
        with suppress(OSError):
            failure_mark.touch()
    try:
        sys.stderr.write(f"trainmark: {message}\n" if isinstance(error, TrainmarkError) else text)
        if log is not None:
            log.write(Failed(error=message, type=type(error).__name__, traceback=text))
        sys.stderr.flush()
    except OSError:  # disk full or unreachable: the exit code remains
        pass
    os._exit(code)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, StoppedError):
        return STOPPED
    # A StorageError names the full storage itself, which need not be that of the run.
    return DISK_FULL if is_disk_full(error) and not isinstance(error, StorageError) else FAILED


def _one_line(error: BaseException) -> str:
    if explained := explain_out_of_memory(error):
        return explained
    line = str(error).strip().split("\n")[0]
    return line if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {line}"


if __name__ == "__main__":
    main()
