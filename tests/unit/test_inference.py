"""Inference: how passes are timed, and its metrics' known answers on events written out by hand."""

import time
from typing import Any

import numpy as np
import pytest

from tests.run_events import as_event
from tests.unit.written_events import with_inference, written_member, written_pair, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured, Member
from trainmark.spec.metrics import metric_rows
from trainmark.spec.result import Metric
from trainmark.train import inference
from trainmark.train.inference import MAX_LATENCIES, time_passes

THROUGHPUT, P50, P99 = "inference_samples_per_s", "inference_latency_p50_s", "inference_latency_p99_s"
HUNDRED = [float(ms) / 1000 for ms in np.random.default_rng(1).permutation(np.arange(1, 101))]


def nothing() -> None:
    """A device that is never behind."""


def measured_run(*members: Member, **measure: Any) -> Measured:
    return written_run(*members, measure={"inference": True, **measure})


def found(name: str, *members: Member, **measure: Any) -> Metric:
    return compute_metric(name, measured_run(*members, **measure))


def test_passes_are_timed_until_there_are_enough_of_them_and_the_time_is_over() -> None:
    few = time_passes(lambda batch: time.sleep(0.002), [None], nothing, 10, 0.001)
    assert (few.passes, len(few.latency_s)) == (10, 10)
    long = time_passes(lambda batch: None, [None], nothing, 10, 0.01)
    assert long.passes > 10 and long.over_s >= 0.01


def test_a_latency_lasts_until_the_device_has_finished() -> None:
    passes = time_passes(lambda batch: None, [None], lambda: time.sleep(0.002), 10, 0.001)
    assert min(passes.latency_s) >= 0.002


def test_of_many_passes_evenly_spaced_latencies_are_kept() -> None:
    passes = time_passes(lambda batch: None, [None], nothing, 5 * MAX_LATENCIES, 0.0)
    # 10,000: every 8th, since every 4th would be 2,500, more than the 2,000 that are kept at most.
    assert (passes.passes, len(passes.latency_s)) == (10_000, 1250)


def test_the_latencies_kept_are_of_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MAX_LATENCIES", 8)
    pauses_s = [0.0, 0.0, 0.005]
    passes = time_passes(time.sleep, pauses_s, nothing, 40, 0.0001)
    # Every 8th of 40 passes: 0, 8, 16, 24 and 32, of batches 0, 2, 1, 0 and 2.
    assert len(passes.latency_s) == 5
    assert passes.latency_s[1] >= 0.005 and passes.latency_s[4] >= 0.005
    assert min(passes.latency_s) < 0.005


def test_members_and_ranks_add_up() -> None:
    # Batches of 10 in 0.1 s and in 0.2 s: 100 and 50 samples/s.
    fast, slow = {10: [0.1] * 20}, {10: [0.2] * 20}
    metric = found(THROUGHPUT, with_inference(written_member(0), fast), with_inference(written_member(1), slow))
    assert metric.value == pytest.approx(150)
    assert (metric.n, metric.unit, metric.better) == (10, "samples/s", "higher")
    assert metric.detail is not None and metric.detail["batch_size"] == 10
    assert metric.detail["per_member"]["max"] == pytest.approx(100)
    pair = written_pair(0, {}, {})
    assert found(THROUGHPUT, with_inference(pair, fast, slow)).value == pytest.approx(150)


def test_members_that_take_turns_on_the_same_cores_count_by_their_mean() -> None:
    first = with_inference(written_member(0, lane=0), {10: [0.1] * 20}, end_s=130.0)
    second = with_inference(written_member(1, lane=0), {10: [0.2] * 20}, end_s=150.0)
    metric = found(THROUGHPUT, first, second)
    assert metric.value == pytest.approx(75)
    assert metric.detail is not None and "note" not in metric.detail


def test_the_figure_says_if_members_did_not_measure_side_by_side() -> None:
    # 2 s each, one of them 30 s later: one at a time.
    first = with_inference(written_member(0), {10: [0.1] * 20}, end_s=130.0)
    second = with_inference(written_member(1), {10: [0.1] * 20}, end_s=160.0)
    detail = found(THROUGHPUT, first, second).detail
    assert detail is not None and detail["members_at_a_time"] == pytest.approx(1)
    assert detail["note"] == "on average 1.00 of 2 lanes measured at a time"


def test_the_throughput_is_the_median_of_ten_blocks_with_the_interval_of_the_median() -> None:
    # Blocks of two passes at 10, 20, … 100 samples/s; of ten, the interval reaches from the second to the ninth.
    latency_s = [10 / rate for rate in range(10, 101, 10) for _ in range(2)]
    metric = found(THROUGHPUT, with_inference(written_member(0), {10: latency_s}))
    assert metric.value == pytest.approx(55)
    assert metric.ci95 == pytest.approx((20, 90))


def test_the_batch_size_may_be_another_than_that_of_training() -> None:
    member = with_inference(written_member(0), {64: [0.5] * 10, 1: [0.01] * 10})
    assert found(THROUGHPUT, member, inference_batch_size=64).value == pytest.approx(128)
    assert found(THROUGHPUT, member, inference_batch_size=1).value == pytest.approx(100)


def test_latencies_of_single_samples_have_a_median_and_a_99th_percentile() -> None:
    # 1, 2, … 100 ms: the median is between 50 and 51; 0.99 × 99 = 98.01, so 0.01 of the way from 99 to 100.
    member = with_inference(written_member(0), {10: [1.0] * 10, 1: HUNDRED})
    p50, p99 = found(P50, member), found(P99, member)
    assert (p50.value, p50.n) == (pytest.approx(0.0505), 10)
    assert p50.ci95 is not None and p50.ci95[0] < 0.0505 < p50.ci95[1]
    assert (p99.value, p99.n, p99.ci95) == (pytest.approx(0.09901), 100, None)
    assert p99.detail is not None and (p99.detail["passes"], p99.detail["batch_size"]) == (100, 1)


def test_latencies_of_all_ranks_are_pooled() -> None:
    pair = with_inference(written_pair(0, {}, {}), {1: HUNDRED[:50]}, {1: HUNDRED[50:]})
    assert found(P50, pair).value == pytest.approx(0.0505)
    assert found(P99, pair).value == pytest.approx(0.09901)


def test_a_99th_percentile_needs_a_hundred_passes() -> None:
    member = with_inference(written_member(0), {1: HUNDRED[:99]})
    assert found(P99, member).reason == (
        "99 forward passes are too few for a 99th percentile, which needs 100. "
        "Choose a larger --set measure.inference_seconds=…"
    )
    assert found(P50, member).value is not None


@pytest.mark.parametrize("name", [THROUGHPUT, P50, P99])
def test_why_there_is_no_figure(name: str) -> None:
    member = with_inference(written_member(0), {10: [0.1] * 20, 1: HUNDRED})
    unasked = compute_metric(name, written_run(member))
    assert (unasked.status, unasked.reason) == ("unavailable", "not measured: measure.inference is false")
    assert found(name, written_member(0)).reason == "not measured by member 0 rank 0"
    split = tuple(as_event(kind="inference", batch_size=size, reason="it is split") for size in (10, 1))
    assert found(name, Member(**{**vars(written_member(0)), "events": (split,)})).reason == "it is split"
    assert metric_rows()[name].hide_if_unavailable


@pytest.mark.parametrize("name", ["flops", "time_to_train_all_s", "throughput_samples_per_s", "peak_memory_bytes"])
def test_figures_of_the_training_do_not_change(name: str) -> None:
    plain = compute_metric(name, written_run(written_member(0)))
    assert found(name, with_inference(written_member(0), {10: [0.1] * 20, 1: HUNDRED})) == plain
