"""Reasons that several metrics give for being unavailable."""

from trainmark.collect.measured import Measured

NO_MEMBER = "no member was trained to the end"
ONE_WORKER = "a member has one worker, which has nobody to talk to"
SYNTHETIC = "synthetic data: there is nothing to be learned"


def no_exchange(measured: Measured) -> str | None:
    """Why there is no communication among workers to speak of; None where there is."""
    if not measured.finished:
        return NO_MEMBER
    return ONE_WORKER if measured.plan.workers_per_member == 1 else None
