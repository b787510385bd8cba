"""Members trained per minute (MLPerf HPC's throughput headline)."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics import time_to_train_all_s
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "models/min"
BETTER: Better = "higher"
NEEDS = "the end"


def compute(measured: Measured) -> Metric:
    """Members trained per minute (MLPerf HPC's throughput headline); failed members are not counted as trained."""
    duration = time_to_train_all_s.compute(measured)
    if duration.value is None:
        return unavailable(UNIT, BETTER, duration.reason or "")
    return Metric(
        value=60 * len(measured.finished) / duration.value,
        unit=UNIT,
        better=BETTER,
        status="derived",
        n=len(measured.finished),
        samples_ref=duration.samples_ref,
    )
