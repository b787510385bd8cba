"""Memory of the workers: the peak of the whole run, and of each step."""

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured
from trainmark.collect.statistics import Samples, summary
from trainmark.spec.events import Steps
from trainmark.spec.machine_events import Memory, StepMemory
from trainmark.spec.metrics import Figure, MetricRow


def _peak_memory(measured: Measured) -> Figure | str:
    ranks = [(member, rank.rank) for member in measured.finished for rank in member.job.ranks]
    events = [event for member, rank in ranks if (event := member.one(Memory, rank))]
    if not events:
        return NO_MEMBER
    on_device = [event.device_bytes for event in events if event.device_bytes is not None]
    resident = [event.resident_bytes for event in events]
    # Recording the peak of each step resets it.
    steps = (member.one(StepMemory, rank) for member, rank in ranks)
    largest = [each.largest_bytes for each in steps if each is not None and each.largest_bytes is not None]
    where = {"where": "accelerator" if on_device else "host", "resident_bytes": resident}
    return Figure(max([*(on_device or resident), *largest]), n=len(events), detail=where)


def _step_memory(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    found, where = list[Samples](), ""
    for member in measured.finished:
        ranks = [rank.rank for rank in member.job.ranks]
        peaks = [[peak for block in member.all_of(Steps, rank) for peak in block.memory_bytes] for rank in ranks]
        event = member.one(StepMemory)
        if event is None or event.reason or not all(peaks):
            return (event.reason if event else None) or "measure.step_memory is false"
        where = event.where
        shortest = min(map(len, peaks))
        found.append(np.array([of_rank[-shortest:] for of_rank in peaks], np.float64).max(axis=0))
    steps = np.concatenate(found)
    return Figure(float(steps.mean()), n=len(steps), detail={**summary(steps), "where": where})


STEP_MEMORY = MetricRow(
    "step_memory_bytes",
    "B",
    "lower",
    "memory per step",
    description="Peak memory of one step, of the worker that needs most, mean over all steps.",
    compute=_step_memory,
    hide_if_unavailable=True,
    needs="finished members",
)


PEAK_MEMORY = MetricRow(
    "peak_memory_bytes",
    "B",
    "lower",
    "peak memory per worker",
    description="The largest peak memory of any worker: on its accelerator, else resident on the host.",
    compute=_peak_memory,
    needs="finished members",
    per_member=True,
    member_heading="peak memory",
)
