"""Which rank brought a member down, and why: when one dies its peers soon fail too, but only the first is the cause."""

import re
import signal
from pathlib import Path

from trainmark.spec.event_files import first_of, read_events
from trainmark.spec.events import Finished
from trainmark.spec.failures import DISK_FULL, FAILED, explain_exit, failure_of, first_error, is_cause
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.units import parse_cores

MOST_LETTERS = 200  # of a line that is quoted
NOTICED = re.compile(r"noticed that process rank (\d+) ")  # how Open MPI's mpirun names the rank that a signal ended
# How srun says that tasks ended badly: «srun: error: n1: tasks 0,2-3: Killed», «… task 1: Exited with exit code 1».
TASKS_ENDED = re.compile(r"srun: error: \S+: tasks? (?P<tasks>[\d,-]+): (?P<how>.+?)(?: \(core dumped\))?")
# Signals by the names that srun prints, but for SIGTERM, which it sends itself, and aborts, which follow from errors.
SIGNALS = {signal.strsignal(each): each for each in set(signal.Signals) - {signal.SIGTERM, signal.SIGABRT}}
SIGNALLED = 128  # what a shell, and Open MPI's mpirun, add to the number of the signal that ended a program


def explain_failure(attempt: AttemptFolder, exit_codes: list[int | None]) -> str:
    """One line: the rank that failed first and its error; None stands for a rank that still ran."""
    codes = {rank: code for rank, code in enumerate(exit_codes) if code}
    rank = _first_to_fail(attempt, codes)
    event = failure_of(attempt, rank) if codes[rank] == FAILED else None
    what = explain_exit(codes[rank]) if event is None else f"failed: {event.error}"
    return f"rank {rank} {what} (log: {attempt.rank_log(rank)})"


def message_lines(log: Path) -> list[str]:
    """What a log says, without rules and empty lines; long lines are cut."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip()[:MOST_LETTERS] for line in lines if any(letter.isalpha() for letter in line)]


def explain_mpirun(attempt: AttemptFolder, num_ranks: int, exit_code: int | None) -> str:
    """One line: the rank that failed first, where only mpirun's own exit code is known; None: it had to be ended."""
    failures = {rank: event for rank in range(num_ranks) if (event := failure_of(attempt, rank))}
    if any(is_cause(event) for event in failures.values()):
        return first_error(attempt, num_ranks) or ""
    if exit_code == DISK_FULL:  # then words could not be written, but mpirun passes on what a rank ended with
        return f"a rank ended: {explain_exit(DISK_FULL)} (log: {attempt.mpirun_log})"
    how = f"mpirun {explain_exit(exit_code)}" if exit_code else "mpirun went on and was ended"
    if not any(_began(attempt, rank) for rank in range(num_ranks)):  # then mpirun's first words say why
        how = ": ".join([how, *message_lines(attempt.mpirun_log)[:1]])
    silent = [rank for rank in range(num_ranks) if _began(attempt, rank) and rank not in failures]
    if (noticed := _noticed_by_mpirun(attempt)) in silent:  # it may have killed the others before they could speak
        silent = [noticed]
    if len(silent) != 1:
        who = f"ranks {', '.join(map(str, silent))} ended without an error message; " if silent else ""
        return f"{who}{how} (log: {attempt.mpirun_log})"
    if exit_code is not None and exit_code > SIGNALLED:
        how = explain_exit(SIGNALLED - exit_code)
        return f"rank {silent[0]} {how} (log: {attempt.rank_log(silent[0])})"
    return f"rank {silent[0]} ended without an error message; {how} (log: {attempt.rank_log(silent[0])})"


def explain_srun(attempt: AttemptFolder, num_ranks: int) -> str | None:
    """One line: the rank that failed first, by srun's messages and the ranks' events; None: neither names one."""
    ended = [found for line in message_lines(attempt.job_log) if (found := TASKS_ENDED.fullmatch(line))]
    killed = [each for each in ended if each["how"] in SIGNALS]
    has_cause = any(is_cause(event) for rank in range(num_ranks) if (event := failure_of(attempt, rank)))
    # After a rank's own error srun ends the others: by SIGTERM, at last by SIGKILL.
    if killed and (killed[0] is ended[0] or not has_cause):
        rank = parse_cores(killed[0]["tasks"])[0]
        return f"rank {rank} {explain_exit(-SIGNALS[killed[0]['how']])} (log: {attempt.rank_log(rank)})"
    return first_error(attempt, num_ranks)


def _noticed_by_mpirun(attempt: AttemptFolder) -> int | None:
    found = NOTICED.search("\n".join(message_lines(attempt.mpirun_log)))
    return int(found[1]) if found else None


def _first_to_fail(attempt: AttemptFolder, codes: dict[int, int]) -> int:
    # Killed by a signal, or out of disk space: no peer caused that. An abort may follow from a peer's error.
    killed = [rank for rank, code in codes.items() if (code < 0 and code != -signal.SIGABRT) or code == DISK_FULL]
    events = {rank: event for rank in codes if (event := failure_of(attempt, rank))}
    own = {rank: event for rank, event in events.items() if is_cause(event)}
    aborted = [rank for rank, code in codes.items() if code == -signal.SIGABRT]
    if killed:
        return killed[0]
    if own:
        return min(own, key=lambda rank: own[rank].wall_s)
    return next(iter(aborted or sorted(events, key=lambda rank: events[rank].wall_s) or codes))


def _began(attempt: AttemptFolder, rank: int) -> bool:
    """Whether the rank got as far as having events, and did not end well."""
    path = attempt.rank_events(rank)
    return has_begun(attempt, rank) and first_of(Finished, read_events(path)[0]) is None


def has_begun(attempt: AttemptFolder, rank: int) -> bool:
    """Whether the rank got as far as having events."""
    return attempt.rank_events(rank).exists()
