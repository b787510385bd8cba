"""What the cores or accelerators in use can do: the best of several kernels, before and after training."""

import statistics
from collections import Counter
from typing import Any

from trainmark.collect.ceiling_rounds import Measurement, read_measurements
from trainmark.collect.measured import Measured
from trainmark.collect.metrics import flops_steady
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "FLOP/s"
BETTER: Better = "neither"
REPORT = "one of the two figures is wrong, please report it"
FEWEST_ROUNDS = 6  # of which the median and the fastest bound what the cores can do: single slow rounds do not count


def compute(measured: Measured) -> Metric:
    """What the cores or accelerators in use can do: the best of several kernels, before and after training."""
    if not measured.config.measure.ceiling:
        return unavailable(UNIT, BETTER, "not measured: measure.ceiling is false")
    found = read_measurements(measured)
    wanted = {(member.job.lane, rank.rank) for member in measured.members for rank in member.job.ranks}
    if wanted - found.keys():
        return unavailable(UNIT, BETTER, "not measured on every lane: a member failed before it could")
    trusted = {place: _trusted(found[place]) for place in wanted}
    disturbed = [place for place in sorted(wanted) if not trusted[place]]
    if disturbed:
        return unavailable(UNIT, BETTER, _why_disturbed(found[disturbed[0]]))
    most, usual = (sum(of(flops) for flops in trusted.values()) for of in (max, statistics.median))
    speed = flops_steady.compute(measured).value if all(each.epochs for each in measured.finished) else None
    if speed is not None and speed > most:
        return unavailable(UNIT, BETTER, f"training ran at {speed / most:.0%} of the measured ceiling: {REPORT}")
    has_interval = min(len(flops) for flops in trusted.values()) >= FEWEST_ROUNDS
    return Metric(
        value=most,
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=(usual, most) if has_interval else None,
        n=sum(len(flops) for flops in trusted.values()),
        samples_ref=measured.samples_ref,
        detail=_detail(measured, [each for place in sorted(wanted) for each in found[place]]),
    )


def _trusted(measurements: list[Measurement]) -> list[float]:
    """FLOP/s of the rounds that were not disturbed."""
    return [each.flops for one in measurements for each in one.rounds if not each.is_disturbed]


def _why_disturbed(measurements: list[Measurement]) -> str:
    first = measurements[0]
    when = " and ".join(sorted({each.phase for each in measurements}, reverse=True))
    most = max(each.most_of_others for each in measurements)
    return (
        f"other processes took {most:.2g} cores of member {first.member} rank {first.rank} while the ceiling was "
        f"measured {when} training. Measure on a quieter machine."
    )


def _detail(measured: Measured, measurements: list[Measurement]) -> dict[str, Any]:
    kernels = Counter(each.kernel for each in measurements)
    phases = ("before", "after")
    unwatched = next((each.unwatched for each in measurements if each.unwatched is not None), None)
    return {
        "precision": measured.config.train.precision,
        "kernel": max(kernels, key=lambda name: kernels[name]),
        "kernels_that_won": dict(kernels),
        "lanes": len({member.job.lane for member in measured.members}),
        "measurements": {phase: sum(each.phase == phase for each in measurements) for phase in phases},
        "rounds_left_out": sum(each.is_disturbed for one in measurements for each in one.rounds),
        "others_cores_most": max(each.most_of_others for each in measurements),
        "unwatched": unwatched,
        **({} if unwatched is None else {"note": f"load by others was not watched: {unwatched}"}),
    }
