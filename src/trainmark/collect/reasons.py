"""Reasons that several metrics give for being unavailable."""

from trainmark.collect.measured import Measured

NO_MEMBER = "no member was trained to the end"
NOT_OVER = "the run is not over"
ONE_WORKER = "a member has one worker, which has nobody to talk to"
UNSEEN_BYTES = "the workers' bytes do not pass through TCP sockets that can be read"
BYTES_NOT_TOLD_APART = "the events do not tell bytes within a node from bytes between nodes; a run made now does"
SYNTHETIC = "synthetic data: there is nothing to be learned"


def no_exchange(measured: Measured) -> str | None:
    """Why there is no communication among workers to speak of; None where there is."""
    if not measured.finished:
        return NO_MEMBER
    return ONE_WORKER if measured.plan.workers_per_member == 1 else None


def no_bytes(measured: Measured, name: str = "sent_bytes") -> str | None:
    """Why a count of bytes is missing in some epoch of some worker; None where all have it."""
    for stop in (stop for member in measured.finished for stop in member.of_all_ranks("epoch_stop")):
        if stop.get("sent_bytes") is None:
            return str(stop.get("sent_reason", UNSEEN_BYTES))
        if stop.get(name) is None:
            return BYTES_NOT_TOLD_APART
    return None
