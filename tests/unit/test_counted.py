"""Metrics of runs that are not over, of members that left nothing, and of figures that cannot be computed."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.written_events import with_facts, written_member, written_predictions, written_run
from trainmark.collect.compute import compute_metrics
from trainmark.collect.measured import Measured, Member
from trainmark.collect.warnings import find_warnings
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric
from trainmark.spec.status import MemberState

AFTER_EPOCHS = ("evaluation", "run_stop", "memory")


def metrics_of(measured: Measured) -> dict[str, Metric]:
    return compute_metrics(measured, METRICS)


def detail(metric: Metric) -> dict[str, Any]:
    assert metric.detail is not None
    return metric.detail


def without(member: Member, *kinds: str) -> Member:
    return replace(member, events=tuple(tuple(e for e in of_rank if e.kind not in kinds) for of_rank in member.events))


def training(member: int, state: MemberState = "running", **changes: Any) -> Member:
    """A member that has trained its epoch, and not been evaluated."""
    return without(written_member(member, state=state, **changes), *AFTER_EPOCHS)


def within_first_epoch(member: int) -> Member:
    """A member whose 40 steps of 0.1 s were written at 104.5, in an epoch that began at 100 and has not ended."""
    begun = without(written_member(member, state="running"), *AFTER_EPOCHS, "epoch_stop")
    return with_facts(begun, {"steps": {"wall_s": 104.5}})


def silent(member: int, state: MemberState = "failed") -> Member:
    """A member that ended before its first event, say in a `setup` line of the site."""
    return replace(written_member(member, state=state), events=((),))


def test_a_member_that_failed_before_its_first_event_costs_the_others_nothing() -> None:
    measured = written_run(written_member(0), silent(1))
    metrics = metrics_of(measured)
    assert metrics["time_to_train_all_s"].value == pytest.approx(105 - 99)
    assert metrics["throughput_samples_per_s"].value == pytest.approx(100)
    assert metrics["flops"].value == pytest.approx(10_000)
    assert metrics["quality_ensemble"].value == 1.0
    warnings = find_warnings(measured, metrics, {"members": []}, {})
    assert "member 1 failed: a reason" in warnings
    assert not any("could not be checked" in warning for warning in warnings)


def test_a_metric_that_fails_is_unavailable_and_costs_no_other() -> None:
    metrics = metrics_of(written_run(without(written_member(0), "model_ready")))
    flops = metrics["flops"]
    assert flops.reason == "it cannot be computed: LookupError: member 0 recorded no model"
    assert (flops.status, flops.unit, flops.better) == ("unavailable", "FLOP/s", "higher")
    assert metrics["throughput_samples_per_s"].value == pytest.approx(100)
    assert metrics["quality_ensemble"].value == 1.0


def test_a_metric_that_cannot_be_loaded_is_unavailable() -> None:
    found = compute_metrics(written_run(written_member(0)), ["trainmark.nowhere:compute"])
    assert "cannot be loaded" in str(found["trainmark.nowhere:compute"].reason)


def test_a_metric_is_computed_once_and_handed_to_those_that_build_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counting(row: MetricRow) -> MetricRow:
        def compute(*given: Any) -> Figure | str:
            computed.append(row.name)
            return row.compute(*given)

        return replace(row, compute=compute)

    rows = {name: counting(METRICS.load(name)) for name in METRICS}
    monkeypatch.setattr(METRICS, "load", rows.__getitem__)
    metrics_of(written_run(written_member(0), written_member(1)))
    assert sorted(computed) == sorted(METRICS)


def test_a_check_that_fails_is_a_line_and_costs_no_other() -> None:
    measured = written_run(written_member(0), written_member(1, state="failed"))
    warnings = find_warnings(measured, {}, {"members": [5]}, {})
    assert "member 1 failed: a reason" in warnings
    assert "warm-up could not be checked: KeyError: 'flops_steady'" in warnings
    assert any(warning.startswith("the bootstraps could not be checked: TypeError") for warning in warnings)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_run_that_is_not_over_has_the_figures_of_the_members_that_have_begun(state: str) -> None:
    measured = written_run(training(0, state), training(1, state), silent(2, "waiting"))
    metrics = metrics_of(measured)
    for name, value in {
        "throughput_samples_per_s": 200.0,
        "step_time_s": 0.1,
        "epoch_time_s": 4.0,
        "flops": 20_000.0,
        "ceiling_flops": 100_000.0,
        "flops_share_of_ceiling": 0.2,
        "data_wait_share": 0.2,
        "harness_overhead_share": 0.01,
    }.items():
        assert metrics[name].value == pytest.approx(value), name
        assert detail(metrics[name])["so_far"] == {"members": 2, "of_members": 3}, name
    for name in ("vflops", "time_to_train_all_s", "models_per_minute"):
        assert metrics[name].reason == "the run is not over", name
    for name in ("quality_ensemble", "quality_member_mean", "quality_out_of_bag", "peak_memory_bytes"):
        assert metrics[name].reason == "the run is not over, and no member has finished", name


def test_qualities_so_far_are_those_of_the_members_that_finished() -> None:
    metrics = metrics_of(written_run(written_member(0, quality=0.7), training(1)))
    assert (metrics["quality_member_mean"].value, metrics["quality_ensemble"].value) == (0.7, 1.0)
    assert detail(metrics["quality_ensemble"])["so_far"] == {"members": 1, "of_members": 2}
    assert detail(metrics["peak_memory_bytes"])["so_far"] == {"members": 1, "of_members": 2}
    assert detail(metrics["throughput_samples_per_s"])["so_far"] == {"members": 2, "of_members": 2}
    assert metrics["vflops"].reason == "the run is not over"


def test_within_the_first_epoch_there_are_figures_of_steps_alone() -> None:
    metrics = metrics_of(written_run(within_first_epoch(0), within_first_epoch(1)))
    assert metrics["step_time_s"].value == pytest.approx(0.1)
    assert metrics["throughput_samples_per_s"].value == pytest.approx(200)
    for name in ("epoch_time_s", "flops", "harness_overhead_share"):
        assert metrics[name].reason == "no member has trained a whole epoch so far", name


def test_before_the_first_step_every_metric_says_what_is_missing() -> None:
    metrics = metrics_of(written_run(silent(0, "running"), silent(1, "waiting")))
    assert metrics["step_time_s"].reason == "no member has trained a step so far"
    assert all(metric.value is None and metric.reason for metric in metrics.values())


def test_a_member_that_failed_counts_in_no_run() -> None:
    metrics = metrics_of(written_run(training(0), written_member(1, state="failed")))
    assert metrics["throughput_samples_per_s"].value == pytest.approx(100)
    assert detail(metrics["throughput_samples_per_s"])["so_far"] == {"members": 1, "of_members": 2}


def test_figures_of_a_run_that_is_over_carry_no_remark() -> None:
    metrics = metrics_of(written_run(written_member(0), written_member(1, state="failed")))
    assert all("so_far" not in (m.detail or {}) and "left_out" not in (m.detail or {}) for m in metrics.values())
    assert metrics["quality_ensemble"].detail == {"members": 1, "of_members": 2}


def test_a_damaged_member_counts_in_no_metric_of_its_events() -> None:
    damaged = replace(written_member(1, step_s=0.2), is_whole=False, problems=("f is missing",), final_quality=0.6)
    metrics = metrics_of(written_run(written_member(0, quality=0.8), damaged))
    assert metrics["throughput_samples_per_s"].value == pytest.approx(100)
    assert detail(metrics["flops"])["left_out"] == "member 1, whose events are damaged"
    assert metrics["ceiling_flops"].value == 50_000  # of the lane that FLOPS count
    assert metrics["time_to_train_all_s"].reason == "the events of member 1 are damaged: f is missing"
    assert metrics["quality_member_mean"].value == pytest.approx(0.7)  # the completion record holds it
    assert "left_out" not in detail(metrics["quality_ensemble"])


def test_synthetic_runs_miss_no_predictions() -> None:
    def none() -> dict[str, Any]:
        raise FileNotFoundError

    member = written_member(0)
    made_up = with_facts(member, {"data_ready": {"synthetic": True}})
    metrics = metrics_of(written_run(replace(made_up, load_predictions=none)))
    assert metrics["quality_ensemble"].reason == "not applicable: synthetic data"


def test_warm_up_is_the_time_of_its_steps_whose_waits_are_in_them() -> None:
    # A step lasts from the end of the one before, so 0.1 s hold the wait of 0.02 s.
    assert written_member(0).warmup_s == pytest.approx(0.1)


def test_the_interval_of_a_quality_ends_exactly_at_its_range() -> None:
    wrong = written_predictions() | {"eval_labels": written_predictions()["eval_labels"][::-1]}
    low, high = metrics_of(written_run(written_member(0, predictions=wrong)))["quality_ensemble"].ci95 or (-1, -1)
    assert (low, 0 < high < 1) == (0.0, True)
    low, high = metrics_of(written_run(written_member(0)))["quality_ensemble"].ci95 or (-1, -1)
    assert (high, 0 < low < 1) == (1.0, True)


def test_within_the_first_epoch_there_is_a_ceiling_and_no_flops_yet() -> None:
    found = metrics_of(written_run(within_first_epoch(0)))
    assert found["ceiling_flops"].value == 50_000
    for name in ("flops", "flops_steady"):
        assert found[name].reason == "no member has trained a whole epoch so far"
    beside = metrics_of(written_run(written_member(0), within_first_epoch(1)))
    assert beside["flops_steady"].value == pytest.approx(100 * 10 / 0.1)  # FLOP a sample × batch / step, of one member
    assert beside["ceiling_flops"].value == 100_000
