"""The ceiling's rounds: those that others disturbed do not count, and the spread of the others is in the share's."""

from dataclasses import replace
from typing import Any

import pytest

from tests.run_events import as_event
from tests.unit.written_events import written_member, written_run
from trainmark.collect.compute import compute_alone
from trainmark.collect.measured import Measured, Member
from trainmark.collect.warnings import find_warnings
from trainmark.spec.machine_events import Ceiling
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric

# A written member trains 100 samples/s of 100 FLOP each: 10,000 FLOP/s.
QUIET = [50_000, 49_000, 48_000, 47_000, 46_000, 45_000, 44_000, 40_000]


def ceiling(phase: str, flops: list[int], others_s: float = 0.0, **fields: Any) -> dict[str, Any]:
    """An event of eight rounds of 0.2 s on one core, of which others took `others_s` each."""
    rounds = [{"flops": float(each), "over_s": 0.2, "others_s": others_s} for each in flops]
    known = {"kind": "ceiling", "wall_s": 95.0, "kernel": "torch.mm 1024", "flops": float(max(flops))}
    return {**known, "phase": phase, "rounds": rounds, "cores": 1, "clock_tick_s": 0.01, "no_progress": None, **fields}


def with_ceilings(member: Member, *events: dict[str, Any]) -> Member:
    others = tuple(event for event in member.events[0] if not isinstance(event, Ceiling))
    return replace(member, events=((*(as_event(**event) for event in events), *others),))


def run_of(*events: dict[str, Any]) -> Measured:
    return written_run(with_ceilings(written_member(0), *events))


def metric(name: str, measured: Measured) -> Metric:
    return compute_alone(name, measured)


def warnings_of(measured: Measured) -> list[str]:
    found = find_warnings(measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {})
    return [line for line in found if "ceiling" in line]


def test_the_larger_of_before_and_after_is_the_ceiling_and_the_spread_goes_into_the_share() -> None:
    after = [flops + 5_000 for flops in QUIET]
    measured = run_of(ceiling("before", QUIET), ceiling("after", after))
    found = metric("ceiling_flops", measured)
    assert (found.value, found.ci95, found.n) == (55_000, (49_000, 55_000), 16)
    share = metric("flops_share_of_ceiling", measured)
    assert share.value == pytest.approx(10_000 / 55_000)
    assert share.ci95 == pytest.approx((10_000 / 55_000, 10_000 / 49_000))  # steps of a written member do not vary
    assert warnings_of(measured) == []


def test_a_measurement_that_others_disturbed_is_left_out_with_a_warning() -> None:
    disturbed = [flops // 2 for flops in QUIET]
    for phases in (("before", "after"), ("after", "before")):
        measured = run_of(ceiling(phases[0], disturbed, others_s=0.1), ceiling(phases[1], QUIET))
        found = metric("ceiling_flops", measured)
        assert (found.value, found.ci95, found.n) == (50_000, (46_500, 50_000), 8)
        assert found.detail is not None
        assert (found.detail["rounds_left_out"], found.detail["others_cores_most"]) == (8, pytest.approx(0.5))
        assert warnings_of(measured) == [
            "other processes took up to 0.5 cores of member 0 while the ceiling was measured "
            f"{phases[0]} training; 8 of 16 rounds were left out. Measure on a quieter machine."
        ]


def test_a_burst_costs_its_rounds_only() -> None:
    event = ceiling("before", QUIET)
    event["rounds"][0]["others_s"] = 0.1
    measured = run_of(event)
    found = metric("ceiling_flops", measured)
    assert (found.value, found.n) == (49_000, 7)
    assert warnings_of(measured) == []


def test_without_a_quiet_round_ceiling_and_share_are_unavailable_with_the_reason() -> None:
    measured = run_of(ceiling("before", QUIET, others_s=0.1), ceiling("after", QUIET, others_s=0.14))
    for name in ("ceiling_flops", "flops_share_of_ceiling"):
        found = metric(name, measured)
        assert (found.value, found.reason) == (
            None,
            "other processes took 0.7 cores of member 0 rank 0 while the ceiling was measured before and after "
            "training. Measure on a quieter machine.",
        )


def test_one_lane_that_was_disturbed_makes_the_ceiling_of_all_unavailable() -> None:
    quiet = with_ceilings(written_member(0), ceiling("before", QUIET))
    disturbed = with_ceilings(written_member(1), ceiling("before", QUIET, others_s=0.1))
    assert "member 1 rank 0" in str(metric("ceiling_flops", written_run(quiet, disturbed)).reason)


def test_the_last_member_of_a_lane_measures_after_what_the_first_measured_before() -> None:
    first = with_ceilings(written_member(0, lane=0), ceiling("before", QUIET))
    last = with_ceilings(written_member(1, start_s=200.0, lane=0), ceiling("after", [60_000]))
    assert metric("ceiling_flops", written_run(first, last)).value == 60_000


@pytest.mark.parametrize(
    ("rounds", "over_s", "others_s", "cores", "is_disturbed"),
    [
        (8, 0.2, 0.04, 1, False),  # 0.2 cores
        (8, 0.2, 0.05, 1, True),  # 0.25 cores
        (1, 0.02, 0.02, 1, False),  # two ticks: within the error of the counts
        (1, 0.02, 0.04, 1, True),  # more than that
        (8, 0.05, 0.025, 1, True),  # too short for ticks by itself, but all rounds together are not: 0.5 cores
        (8, 0.05, 0.005, 1, False),  # the same with 0.1 cores
        (8, 0.2, 0.08, 16, False),  # 0.4 cores of 16: the system's own tasks, and ticks
        (8, 0.2, 0.16, 16, True),  # 0.8 cores: a busy process, for which all threads wait on one core
    ],
)
def test_how_much_of_others_is_too_much(
    rounds: int, over_s: float, others_s: float, cores: int, is_disturbed: bool
) -> None:
    event = ceiling("before", [50_000] * rounds, cores=cores)
    for each in event["rounds"]:
        each |= {"over_s": over_s, "others_s": others_s}
    assert (metric("ceiling_flops", run_of(event)).value is None) == is_disturbed


def test_where_load_was_not_watched_the_ceiling_says_so() -> None:
    event = ceiling("before", QUIET, no_progress="/proc/stat does not list the cores of this process")
    for each in event["rounds"]:
        each["others_s"] = None
    found = metric("ceiling_flops", run_of(event))
    assert found.value == 50_000
    assert found.detail is not None
    assert found.detail["no_progress"] == "/proc/stat does not list the cores of this process"


def test_a_ceiling_of_earlier_versions_is_read_and_has_no_interval() -> None:
    found = metric("ceiling_flops", written_run(written_member(0, ceiling=50_000.0)))
    assert (found.value, found.ci95, found.n) == (50_000, None, 1)
    assert found.detail is not None
    assert found.detail["no_progress"] == "the events are older than this check"


def test_workers_that_share_cores_are_not_foreign_to_each_other() -> None:
    members = []
    for number in (0, 1):
        member = with_ceilings(written_member(number), ceiling("before", QUIET, others_s=0.1))
        ranks = tuple(rank._replace(cores=(0,)) for rank in member.job.ranks)
        members.append(replace(member, job=member.job._replace(ranks=ranks)))
    found = metric("ceiling_flops", written_run(*members))
    assert found.value == 100_000
    assert found.detail is not None
    assert "workers share cores" in found.detail["no_progress"]
