"""Samples the whole ensemble trains per second in steady state."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.collect.statistics import mean_interval, pooled_rates, summary
from trainmark.spec.layout import global_batch
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "samples/s"
BETTER: Better = "higher"
BATCHES = 10


def compute(measured: Measured) -> Metric:
    """Samples the whole ensemble trains per second in steady state: samples over time, stalls included."""
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    batch = global_batch(measured.config.train, measured.plan.workers_per_member)
    steady = [member.step_s[member.steady.warmup_steps :] for member in measured.finished]
    of_members = np.array([batch * len(step_s) / step_s.sum() for step_s in steady])
    # All members' steps over all members' time, as Eq. 6 has it: a mean of rates would flatter slow members.
    together = batch * sum(len(step_s) for step_s in steady) / sum(step_s.sum() for step_s in steady)
    rates = pooled_rates(steady, batch, BATCHES)
    return Metric(
        value=measured.concurrency * float(together),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=mean_interval(measured.concurrency * rates, least=0.0),
        n=len(rates),
        samples_ref=measured.samples_ref,
        detail={
            "per_member": summary(of_members),
            "members_at_a_time": measured.concurrency,
            "warmup_steps": [member.steady.warmup_steps for member in measured.finished],
            "steady_steps": [len(step_s) for step_s in steady],
            "settled": [member.steady.settled for member in measured.finished],
        },
    )
