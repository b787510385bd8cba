"""How long staging to local storage took where it took longest: MLPerf HPC's staging_stop − staging_start."""

from trainmark.collect.measured import Measured
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.events import StagingStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "s"
BETTER: Better = "lower"


def compute(measured: Measured) -> Metric:
    """How long copying the members' samples to the nodes' own storage took, where it took longest; before training."""
    if measured.config.launch.stage == "none":
        return unavailable(UNIT, BETTER, "nothing was staged: launch.stage is none")
    if not measured.finished:
        return unavailable(UNIT, BETTER, NO_MEMBER)
    stops = [stop for member in measured.finished for stop in member.of_all_ranks(StagingStop)]
    if not stops:
        dataset = measured.config.dataset
        return unavailable(UNIT, BETTER, f"nothing was staged: samples of {dataset} are not read from disk one by one")
    return Metric(
        value=max(stop.staging_s for stop in stops),
        unit=UNIT,
        better=BETTER,
        status="measured",
        n=len(stops),
        samples_ref=measured.samples_ref,
        detail=_detail(stops),
    )


def _detail(stops: list[StagingStop]) -> dict[str, float | int | None]:
    copied = [stop for stop in stops if not stop.reused]
    copied_bytes = sum(stop.bytes for stop in copied)
    return {
        "copied_packs": len(copied),
        "reused_packs": len(stops) - len(copied),
        "copied_bytes": copied_bytes,
        "samples_share": sum(stop.samples for stop in stops) / sum(stop.of_samples for stop in stops),
        "bytes_per_s": copied_bytes / sum(stop.staging_s for stop in copied) if copied else None,
    }
