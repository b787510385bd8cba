"""Which rank brought a member down, and why: when one dies, its peers soon fail too, and only the first one tells."""

from trainmark.spec.event import Event, read_events
from trainmark.spec.exit_codes import DISK_FULL, explain_exit
from trainmark.spec.run_folder import AttemptFolder


def explain_failure(attempt: AttemptFolder, exit_codes: list[int | None]) -> str:
    """One line: the rank that failed first and its error; None stands for a rank that still ran."""
    failed = [(rank, code) for rank, code in enumerate(exit_codes) if code not in (None, 0)]
    for rank, code in failed:  # a signal or a full disk leaves no event, and is never a peer's fault
        if code is not None and (code < 0 or code == DISK_FULL):
            return f"rank {rank} {explain_exit(code)} (log: {attempt.rank_log(rank)})"
    events = {rank: _failure(attempt, rank) for rank, _ in failed}
    told = {rank: event for rank, event in events.items() if event is not None}
    if told:
        first = min(told, key=lambda rank: float(told[rank]["wall_s"]))
        return f"rank {first}: {told[first]['error']} (log: {attempt.rank_log(first)})"
    rank, code = failed[0]
    return f"rank {rank} {explain_exit(code or 0)} (log: {attempt.rank_log(rank)})"


def _failure(attempt: AttemptFolder, rank: int) -> Event | None:
    events, _ = read_events(attempt.rank_events(rank))
    return next((event for event in events if event["kind"] == "failed"), None)
