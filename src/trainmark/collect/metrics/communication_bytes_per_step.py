"""The bytes that one worker sends to the others in one step, as the kernel counted them."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import no_bytes, no_exchange
from trainmark.spec.events import EpochStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "B"
BETTER: Better = "lower"
NEEDS = "epochs"


def compute(measured: Measured) -> Metric:
    """The bytes that one worker sends to the others in one step, as the kernel counted them."""
    if reason := no_exchange(measured) or no_bytes(measured, lambda stop: stop.sent_bytes):
        return unavailable(UNIT, BETTER, reason)
    sent = [
        sum(stop.sent_bytes or 0 for stop in member.all_of(EpochStop, rank.rank))
        for member in measured.finished
        for rank in member.job.ranks
    ]
    steps = [len(member.step_s) for member in measured.finished for _ in member.job.ranks]
    per_step = np.array([of_rank / count for of_rank, count in zip(sent, steps, strict=True)])
    return Metric(
        value=float(per_step.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=int(sum(steps)),
        samples_ref=measured.samples_ref,
        detail={
            "precision": measured.config.train.communication_precision,
            "least_of_a_worker": float(per_step.min()),
            "most_of_a_worker": float(per_step.max()),
        },
    )
