"""What it takes to reach the target quality, by events written out by hand."""

from dataclasses import replace

import pytest

from tests.run_events import as_event
from tests.unit.written_events import with_facts, written_member, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured, Member

TO_TARGET = ("epochs_to_target", "time_to_target_s", "flop_to_target")


def evaluated(member: int, *qualities: float, last_steps: int = 40, resumed_at: int | None = None) -> Member:
    """A member with an evaluation after each epoch of 40 steps of 0.1 s, 10 samples each; 5 s from one to the next.

    It starts at 99 s and is first evaluated at 105 s; `last_steps` of the last epoch are trained.
    """
    plain = written_member(member)
    events = [event for event in plain.events[0] if event.kind in ("rank_started", "data_ready", "model_ready")]
    if resumed_at is not None:
        events.append(as_event(kind="resumed", step=resumed_at, epoch=resumed_at // 40))
    events.append(as_event(kind="run_start", wall_s=99.0, epoch=0))
    for epoch, quality in enumerate(qualities):
        steps = 40 if epoch < len(qualities) - 1 else last_steps
        begin_s, ran = 100.0 + 5 * epoch, {"epoch": epoch, "steps_per_epoch": 40, "next_step": 40 * epoch + steps}
        events += [
            as_event(kind="epoch_start", wall_s=begin_s, epoch=epoch, step=40 * epoch),
            as_event(kind="epoch_stop", wall_s=begin_s + 4, epoch_s=steps / 10, samples=10 * steps, **ran),
            as_event(kind="evaluation", wall_s=begin_s + 5, epoch=epoch, quality=quality),
        ]
    events.append(as_event(kind="run_stop", wall_s=200.0))
    return replace(plain, events=(tuple(events),))


def values_of(measured: Measured) -> list[float | None]:
    return [compute_metric(name, measured).value for name in TO_TARGET]


def reasons_of(measured: Measured) -> list[str | None]:
    return [compute_metric(name, measured).reason for name in TO_TARGET]


def test_the_first_evaluation_at_the_target_counts_and_later_ones_do_not() -> None:
    # After 2 epochs; at 110 s, 11 s after run_start; 80 steps of 10 samples of 100 FLOP.
    assert values_of(written_run(evaluated(0, 0.5, 0.8, 0.7, 0.9))) == [2.0, 11.0, 80_000.0]


def test_the_value_is_the_median_over_the_members() -> None:
    members = (evaluated(0, 0.9), evaluated(1, 0.5, 0.9), evaluated(2, 0.1, 0.2, 0.3, 0.9))
    run = written_run(*members)
    assert values_of(run) == [2.0, 11.0, 80_000.0]
    metric = compute_metric("epochs_to_target", run)
    assert metric.detail is not None and (metric.n, metric.better) == (3, "lower")
    assert metric.detail["target_quality"] == 0.8


def test_an_epoch_that_was_cut_short_counts_as_the_part_that_was_trained() -> None:
    # 50 of 40 + 40 steps.
    assert values_of(written_run(evaluated(0, 0.5, 0.8, last_steps=10))) == [1.25, 11.0, 50_000.0]


def test_a_member_that_never_reached_the_target_makes_the_metrics_unavailable_with_its_best_quality() -> None:
    run = written_run(evaluated(0, 0.9), evaluated(1, 0.5, 0.71, 0.7))
    assert reasons_of(run) == ["1 of 2 members did not reach the target 0.8; best 0.71"] * 3


def test_evaluations_of_an_earlier_attempt_are_not_guessed() -> None:
    resumed = evaluated(0, 0.5, 0.9, resumed_at=0)
    before, time, _ = reasons_of(written_run(resumed))
    assert before == "member 0 was restarted from a checkpoint, and may have reached the target before it"
    assert time == "member 0 needed several attempts, whose timings are not combined"
    # Where the target ends training, an earlier attempt cannot have reached it.
    assert values_of(written_run(resumed, train={"stop_at_target": True})) == [2.0, None, 80_000.0]


@pytest.mark.parametrize("name", TO_TARGET)
def test_synthetic_data_have_no_target(name: str) -> None:
    run = written_run(with_facts(evaluated(0, 0.9), {"data_ready": {"synthetic": True}}))
    assert compute_metric(name, run).reason == "not applicable: synthetic data"
