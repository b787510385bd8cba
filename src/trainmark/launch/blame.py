"""Which rank brought a member down, and why: when one dies, its peers soon fail too, and only the first one tells."""

import signal

from trainmark.spec.event import Event, read_events
from trainmark.spec.exit_codes import DISK_FULL, FAILED, explain_exit
from trainmark.spec.run_folder import AttemptFolder

# What a rank says when its peer has gone: never the cause itself.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Gloo", "gloo")


def explain_failure(attempt: AttemptFolder, exit_codes: list[int | None]) -> str:
    """One line: the rank that failed first and its error; None stands for a rank that still ran."""
    codes = {rank: code for rank, code in enumerate(exit_codes) if code}
    rank = _first_to_fail(attempt, codes)
    event = _failure(attempt, rank) if codes[rank] == FAILED else None
    what = explain_exit(codes[rank]) if event is None else f"failed: {event['error']}"
    return f"rank {rank} {what} (log: {attempt.rank_log(rank)})"


def first_error(attempt: AttemptFolder, num_ranks: int) -> str | None:
    """One line: the error of the rank that failed first, where no exit codes are known; None: no rank had one."""
    codes = {rank: FAILED for rank in range(num_ranks) if _failure(attempt, rank)}
    if not codes:
        return None
    rank = _first_to_fail(attempt, codes)
    event = _failure(attempt, rank)
    assert event is not None
    return f"rank {rank} failed: {event['error']} (log: {attempt.rank_log(rank)})"


def _first_to_fail(attempt: AttemptFolder, codes: dict[int, int]) -> int:
    # Killed by a signal, or out of disk space: nobody else did that. An abort may follow from a peer's error.
    killed = [rank for rank, code in codes.items() if (code < 0 and code != -signal.SIGABRT) or code == DISK_FULL]
    events = {rank: event for rank in codes if (event := _failure(attempt, rank))}
    own = {rank: event for rank, event in events.items() if not any(word in event["error"] for word in LOST_PEER)}
    aborted = [rank for rank, code in codes.items() if code == -signal.SIGABRT]
    if killed:
        return killed[0]
    if own:
        return min(own, key=lambda rank: float(own[rank]["wall_s"]))
    return next(iter(aborted or sorted(events, key=lambda rank: float(events[rank]["wall_s"])) or codes))


def _failure(attempt: AttemptFolder, rank: int) -> Event | None:
    events, _ = read_events(attempt.rank_events(rank))
    return next((event for event in events if event["kind"] == "failed"), None)
