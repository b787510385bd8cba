"""How ranks fail: their exit codes, and which rank of a member failed first."""

import signal

from trainmark.spec.event_files import first_of, read_events
from trainmark.spec.events import Failed
from trainmark.spec.run_folder import AttemptFolder

FAILED = 1
DISK_FULL = 28  # the number of ENOSPC
STOPPED = 128 + signal.SIGTERM

# In the error of a rank whose training diverged.
LOSS_BECAME = "The loss became"


def explain_exit(code: int) -> str:
    """Describes a rank's exit code; negative codes are signals, as in Python's subprocess."""
    if code == DISK_FULL:
        return "no space left where the run is stored; free some space or choose another --runs-dir"
    if code == STOPPED:
        return "stopped by SIGTERM"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "real-time signal"
        why = "; probably out of memory, or killed by a user" if name == "SIGKILL" else ""
        return f"killed by signal {-code} ({name}){why}"
    return f"ended with exit code {code}"


# Errors of ranks that lost a peer or were terminated because of one: never the root cause.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Gloo", "gloo")
ASKED_TO_END = "stopped by SIGTERM"


def failure_of(attempt: AttemptFolder, rank: int) -> Failed | None:
    """Returns a rank's Failed event, or None."""
    return first_of(Failed, read_events(attempt.rank_events(rank))[0])


def is_cause(failure: Failed) -> bool:
    """Whether a failure is a root cause and not a consequence of a failed peer."""
    return not any(symptom in failure.error for symptom in (*LOST_PEER, ASKED_TO_END))


def first_error(attempt: AttemptFolder, num_ranks: int) -> str | None:
    """Returns the error of the rank that failed first as one line, or None; for use without exit codes."""
    failures = {rank: event for rank in range(num_ranks) if (event := failure_of(attempt, rank))}
    if not failures:
        return None
    causes = {rank: event for rank, event in failures.items() if is_cause(event)} or failures
    rank = min(causes, key=lambda rank: causes[rank].wall_s)
    return f"rank {rank} failed: {causes[rank].error} (log: {attempt.rank_log(rank)})"
