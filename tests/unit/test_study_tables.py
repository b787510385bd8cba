"""Tables and captions of studies: every gap has its reason, every list says what it leaves out."""

from dataclasses import replace

import pytest

from tests.unit.written_outcomes import outcomes, point, result
from trainmark.spec.result import Metric
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.tables import Measure, build_table, difference, figure, heat_map, metric, ratio

SPEED = "throughput_samples_per_s"


def test_a_caption_that_leaves_gaps_and_flags_out_says_how_many() -> None:
    failed = [point({"batch": batch}, ["stopped"]) for batch in range(6)]
    wide = [point({"batch": batch}, [{SPEED: 10}, {SPEED: 20}]) for batch in range(10, 17)]
    found = build_table(outcomes(*failed, *wide), [metric(SPEED)])
    drawn = figure(found, "f", "F", "text", [heat_map(found, "speed", "batch", "batch", SPEED)])
    assert "batch=3 (stopped); and 2 more." in drawn.caption
    assert "batch=15; and 1 more." in drawn.caption
    assert "batch=4" not in drawn.caption and "batch=16" not in drawn.caption


def test_only_a_spread_above_the_limit_is_flagged_whatever_a_note_says() -> None:
    wordy = Measure("x", "", "x", lambda each: 1.0, why=lambda each: "the loss is above 3")
    found = build_table(outcomes(point({"batch": 8}, [{SPEED: 10}])), [metric(SPEED), wordy])
    assert found.rows[0]["note"] == "the loss is above 3"
    assert "Spread above" not in figure(found, "f", "F", "text").caption


def unavailable(at: int, **reasons: str) -> PointOutcomes:
    """A point with a throughput of 6, and metrics that are unavailable for these reasons."""
    with_speed = result({SPEED: 6})
    missing = {
        name: Metric(value=None, unit="", better="higher", status="unavailable", reason=reason)
        for name, reason in reasons.items()
    }
    changed = with_speed.model_copy(update={"metrics": {**with_speed.metrics, **missing}})
    return PointOutcomes(Point(at={"t": at}), (Outcome(1, "r1", changed),))


def test_each_empty_cell_has_its_reason_in_the_note_and_each_reason_stands_once() -> None:
    found = outcomes(
        unavailable(1, quality_ensemble="no held-out samples", vflops="no held-out samples", flops="no rule")
    )
    measures = [
        difference("gain", "quality_ensemble", lambda each: each, "gain"),
        metric(SPEED),
        metric("vflops", "VFLOPS"),
        metric("flops", "FLOPS"),
        ratio("speedup", SPEED, lambda each: None, "speed-up"),
        Measure("own", "", "own", lambda each: None),
    ]
    assert build_table(found, measures).rows[0]["note"] == (
        "gain, VFLOPS: no held-out samples; FLOPS: no rule; speed-up: nothing to compare with"
    )


def test_a_note_counts_the_runs_whose_results_doubt_their_own_figures() -> None:
    drifting = result({SPEED: 6}, {SPEED: {"settled": [True, False]}}, members=2)
    steady = result({SPEED: 6}, {SPEED: {"settled": [True, True]}}, members=2)
    first, *others = steady.members
    restarted = steady.model_copy(update={"members": [first.model_copy(update={"restarted": True}), *others]})
    # One member was tried again, after the other had ended.
    again = steady.model_copy(update={"members": [first.model_copy(update={"attempts": 2}), *others]})
    runs = (drifting, steady, restarted, again, again)
    found = PointOutcomes(Point(at={}), tuple(Outcome(n, f"r{n}", each) for n, each in enumerate(runs, 1)))
    assert build_table(outcomes(found), [metric(SPEED)]).rows[0]["note"] == (
        "1 of 5 runs restarted from a checkpoint; 2 of 5 runs trained members at different times; "
        "1 of 5 runs never settled"
    )


def of_steps(*steps: int) -> PointOutcomes:
    """A point whose runs had so many steps, which never settled."""
    details = [{"settled": [False], "warmup_steps": [1], "steady_steps": [count - 1]} for count in steps]
    runs = [Outcome(n, f"r{n}", result({SPEED: 6}, {SPEED: {**each}})) for n, each in enumerate(details, 1)]
    return PointOutcomes(Point(at={}), tuple(runs))


def test_runs_that_are_too_short_to_tell_are_not_said_to_have_never_settled() -> None:
    # 21 steps are the fewest of which it can be told.
    found = build_table(outcomes(of_steps(20, 21)), [metric(SPEED)])
    assert found.rows[0]["note"] == (
        "1 of 2 runs never settled; 1 of 2 runs too short to tell warm-up from steady state"
    )


def test_a_doubt_that_all_runs_share_stands_once_in_the_caption() -> None:
    found = build_table(outcomes(of_steps(3), of_steps(3)), [metric(SPEED)])
    assert [row["note"] for row in found.rows] == ["", ""]
    assert found.caption.endswith("; all runs too short to tell warm-up from steady state")


def test_a_reason_that_a_measure_has_given_itself_is_not_repeated() -> None:
    missed = metric("vflops", "VFLOPS")._replace(why=lambda each: "2 of 2 runs have none: no rule")
    assert build_table(outcomes(unavailable(1, vflops="no rule")), [missed]).rows[0]["note"] == (
        "2 of 2 runs have none: no rule"
    )


@pytest.mark.parametrize(("cores", "where"), [(1, "1 core on here"), (2, "2 cores on here"), (None, "here")])
def test_a_caption_counts_cores_and_leaves_out_those_that_are_not_known(cores: int | None, where: str) -> None:
    one = result({SPEED: 6})
    changed = one.model_copy(update={"plan": replace(one.plan, cores=cores, site="here")})
    assert f", {where}; torch" in outcomes(PointOutcomes(Point(at={}), (Outcome(1, "r1", changed),))).caption


def test_the_note_counts_runs_with_damaged_files_and_says_which_columns_lack_them() -> None:
    damaged = result({SPEED: "events are damaged", "flops": 9.0}).model_copy(update={"damage": ["events are damaged"]})
    runs = (Outcome(1, "r1", result({SPEED: 100.0, "flops": 8.0})), Outcome(2, "r2", damaged))
    found = Outcomes((PointOutcomes(Point(at={"batch": 8}), runs),), 2)
    (row,) = build_table(found, [metric(SPEED), metric("flops")]).rows
    assert (row["n"], row["note"]) == (2, "1 of 2 runs with damaged files; throughput: from 1 of 2 runs")
