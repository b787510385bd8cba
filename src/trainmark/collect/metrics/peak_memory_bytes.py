"""The largest peak of memory of any worker: on its accelerator where it has one, else resident in the host."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.machine_events import Memory
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "B"
BETTER: Better = "lower"
NEEDS = "finished members"


def compute(measured: Measured) -> Metric:
    """The largest peak of memory of any worker: on its accelerator where it has one, else resident in the host."""
    events = [
        event for member in measured.finished for rank in member.job.ranks if (event := member.one(Memory, rank.rank))
    ]
    if not events:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    on_device = [event.device_bytes for event in events if event.device_bytes is not None]
    resident = [event.resident_bytes for event in events]
    return Metric(
        value=max(on_device or resident),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(events),
        samples_ref=measured.samples_ref,
        detail={"where": "accelerator" if on_device else "host", "resident_bytes": resident},
    )
