"""Reasons that several metrics give for being unavailable."""

from collections.abc import Callable

from trainmark.collect.measured import Measured
from trainmark.spec.events import EpochStop

Sent = Callable[[EpochStop], int | None]  # some of the bytes that a worker sent in an epoch

NO_MEMBER = "no member finished"
NOT_OVER = "the run is not over"
ONE_WORKER = "not applicable: one worker"
UNSEEN_BYTES = "the workers' bytes do not pass through readable TCP sockets"
BYTES_NOT_SPLIT = "recorded by a version that did not split bytes into intra- and inter-node traffic"
SYNTHETIC = "not applicable: synthetic data"


def no_exchange(measured: Measured) -> str | None:
    """Why workers do not communicate; None where there is."""
    if not measured.finished:
        return NO_MEMBER
    return ONE_WORKER if measured.plan.workers_per_member == 1 else None


def no_bytes(measured: Measured, sent: Sent) -> str | None:
    """Why a count of bytes is missing in some epoch of some worker; None where all have it."""
    for stop in (stop for member in measured.finished for stop in member.of_all_ranks(EpochStop)):
        if stop.sent_bytes is None:
            return stop.sent_reason or UNSEEN_BYTES
        if sent(stop) is None:
            return BYTES_NOT_SPLIT
    return None
