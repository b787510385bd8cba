"""Which rank of a member failed first, by the events of all: when one fails, its peers soon fail of that."""

from trainmark.spec.event import Event, read_events
from trainmark.spec.run_folder import AttemptFolder

# What a rank says when its peer has gone, or when it was asked to end because of that: never the cause itself.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Gloo", "gloo")
ASKED_TO_END = "stopped by SIGTERM"


def failure_of(attempt: AttemptFolder, rank: int) -> Event | None:
    """The event with which a rank failed; None if it has left none."""
    events, _ = read_events(attempt.rank_events(rank))
    return next((event for event in events if event["kind"] == "failed"), None)


def is_cause(failure: Event) -> bool:
    """Whether a rank failed of its own, and not because of a peer."""
    return not any(word in failure["error"] for word in (*LOST_PEER, ASKED_TO_END))


def first_error(attempt: AttemptFolder, num_ranks: int) -> str | None:
    """One line: the error of the rank that failed first, where no exit codes are known; None: no rank had one."""
    failures = {rank: event for rank in range(num_ranks) if (event := failure_of(attempt, rank))}
    if not failures:
        return None
    causes = {rank: event for rank, event in failures.items() if is_cause(event)} or failures
    rank = min(causes, key=lambda rank: float(causes[rank]["wall_s"]))
    return f"rank {rank} failed: {causes[rank]['error']} (log: {attempt.rank_log(rank)})"
