"""Root cause of a failed member: when one rank dies its peers soon fail too, but only the first is to blame."""

import re
import signal
from pathlib import Path

from trainmark.spec.event_files import first_of, read_events
from trainmark.spec.events import Finished
from trainmark.spec.failures import DISK_FULL, FAILED, explain_exit, failure_of, first_error, is_cause
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.units import parse_cores

MAX_LINE = 200  # characters of a quoted line
NOTICED = re.compile(r"noticed that process rank (\d+) ")  # Open MPI's mpirun on a rank killed by a signal
# srun on failed tasks: «srun: error: n1: tasks 0,2-3: Killed», «… task 1: Exited with exit code 1».
TASKS_ENDED = re.compile(r"srun: error: \S+: tasks? (?P<tasks>[\d,-]+): (?P<how>.+?)(?: \(core dumped\))?")
# Signals by the names srun prints, without SIGTERM, which it sends itself, and aborts, which follow from errors.
SIGNALS = {signal.strsignal(each): each for each in set(signal.Signals) - {signal.SIGTERM, signal.SIGABRT}}
SIGNALLED = 128  # added to the signal number by shells and Open MPI's mpirun in the exit code of a killed program


def explain_failure(attempt: AttemptFolder, exit_codes: list[int | None]) -> str:
    """Returns one line: the rank that failed first and its error; a None exit code is a rank still running."""
    codes = {rank: code for rank, code in enumerate(exit_codes) if code}
    rank = _first_to_fail(attempt, codes)
    event = failure_of(attempt, rank) if codes[rank] == FAILED else None
    what = explain_exit(codes[rank]) if event is None else f"failed: {event.error}"
    return f"rank {rank} {what} (log: {attempt.rank_log(rank)})"


def message_lines(log: Path) -> list[str]:
    """Returns a log's lines without rules and empty lines; long lines are truncated."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip()[:MAX_LINE] for line in lines if any(letter.isalpha() for letter in line)]


def explain_mpirun(attempt: AttemptFolder, num_ranks: int, exit_code: int | None) -> str:
    """Returns one line: the rank that failed first, given mpirun's exit code only; None: it had to be terminated."""
    failures = {rank: event for rank in range(num_ranks) if (event := failure_of(attempt, rank))}
    if any(is_cause(event) for event in failures.values()):
        return first_error(attempt, num_ranks) or ""
    if exit_code == DISK_FULL:  # then ranks could not record an error, but mpirun passes on the exit code
        return f"a rank failed: {explain_exit(DISK_FULL)} (log: {attempt.mpirun_log})"
    how = f"mpirun {explain_exit(exit_code)}" if exit_code else "mpirun kept running and was terminated"
    if not any(_began(attempt, rank) for rank in range(num_ranks)):  # then mpirun's first line gives the reason
        how = ": ".join([how, *message_lines(attempt.mpirun_log)[:1]])
    silent = [rank for rank in range(num_ranks) if _began(attempt, rank) and rank not in failures]
    if (noticed := _noticed_by_mpirun(attempt)) in silent:  # it may have killed the others before they could
        silent = [noticed]
    if len(silent) != 1:
        who = f"ranks {', '.join(map(str, silent))} ended without an error message; " if silent else ""
        return f"{who}{how} (log: {attempt.mpirun_log})"
    if exit_code is not None and exit_code > SIGNALLED:
        how = explain_exit(SIGNALLED - exit_code)
        return f"rank {silent[0]} {how} (log: {attempt.rank_log(silent[0])})"
    return f"rank {silent[0]} ended without an error message; {how} (log: {attempt.rank_log(silent[0])})"


def explain_srun(attempt: AttemptFolder, num_ranks: int) -> str | None:
    """Returns one line: the rank that failed first, by srun's messages and the ranks' events; None: unknown."""
    ended = [found for line in message_lines(attempt.job_log) if (found := TASKS_ENDED.fullmatch(line))]
    killed = [each for each in ended if each["how"] in SIGNALS]
    has_cause = any(is_cause(event) for rank in range(num_ranks) if (event := failure_of(attempt, rank)))
    # After a rank's own error srun terminates the others, by SIGTERM, then SIGKILL.
    if killed and (killed[0] is ended[0] or not has_cause):
        rank = parse_cores(killed[0]["tasks"])[0]
        return f"rank {rank} {explain_exit(-SIGNALS[killed[0]['how']])} (log: {attempt.rank_log(rank)})"
    return first_error(attempt, num_ranks)


def _noticed_by_mpirun(attempt: AttemptFolder) -> int | None:
    found = NOTICED.search("\n".join(message_lines(attempt.mpirun_log)))
    return int(found[1]) if found else None


def _first_to_fail(attempt: AttemptFolder, codes: dict[int, int]) -> int:
    # Killed by a signal, or out of disk space: not caused by a peer. An abort may follow from a peer's error.
    killed = [rank for rank, code in codes.items() if (code < 0 and code != -signal.SIGABRT) or code == DISK_FULL]
    events = {rank: event for rank in codes if (event := failure_of(attempt, rank))}
    causes = {rank: event for rank, event in events.items() if is_cause(event)}
    aborted = [rank for rank, code in codes.items() if code == -signal.SIGABRT]
    if killed:
        return killed[0]
    if causes:
        return min(causes, key=lambda rank: causes[rank].wall_s)
    return next(iter(aborted or sorted(events, key=lambda rank: events[rank].wall_s) or codes))


def _began(attempt: AttemptFolder, rank: int) -> bool:
    """Whether the rank recorded events, but did not finish."""
    path = attempt.rank_events(rank)
    return has_begun(attempt, rank) and first_of(Finished, read_events(path)[0]) is None


def has_begun(attempt: AttemptFolder, rank: int) -> bool:
    """Whether the rank recorded events."""
    return attempt.rank_events(rank).exists()
