"""Every metric's known answer on events written out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.run_events import as_event
from tests.unit.written_events import (
    with_facts,
    with_staging,
    with_step_memory,
    with_usage,
    written_member,
    written_pair,
    written_predictions,
    written_run,
    written_sample,
)
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured
from trainmark.collect.warnings import find_warnings
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric
from trainmark.workloads.quality.top1 import Top1


def metric(name: str, measured: Measured) -> Metric:
    return compute_metric(name, measured)


def value(name: str, measured: Measured) -> float:
    found = metric(name, measured).value
    assert found is not None
    return found


SIDE_BY_SIDE = written_run(written_member(0), written_member(1))
QUEUED = written_run(written_member(0, lane=0), written_member(1, start_s=200.0, lane=0))


def test_members_side_by_side_add_their_throughput() -> None:
    assert value("throughput_samples_per_s", SIDE_BY_SIDE) == pytest.approx(2 * 10 / 0.1)


def test_a_queue_of_members_is_not_a_larger_machine() -> None:
    assert value("throughput_samples_per_s", QUEUED) == pytest.approx(10 / 0.1)
    assert value("flops", QUEUED) == pytest.approx(100 * 400 / 4)


def test_flops_is_eq_6() -> None:
    # 2 members × 400 samples × 100 FLOP in 4 s; ai500 counts 90 FLOP a sample.
    found = metric("flops", SIDE_BY_SIDE)
    assert found.value == pytest.approx(2 * 400 * 100 / 4)
    assert found.convention == "exact"
    assert found.detail is not None
    assert found.detail["by_convention"]["ai500"] == pytest.approx(2 * 400 * 90 / 4)


def test_operators_of_a_detector_count_its_proposals_too() -> None:
    # 100 FLOP a sample, and 7 (2 convolution, 5 matrix product) for each of 30 proposals in 10 images.
    member = written_member(0)
    told = {
        "model_ready": {
            "conventions": {
                "exact": {
                    "training": 100.0,
                    "operators": {"convolution": 60.0, "matrix product": 40.0},
                    "per_proposal": {"training": 7.0, "operators": {"convolution": 2.0, "matrix product": 5.0}},
                }
            }
        },
        "epoch_stop": {"images_seen": 10, "proposals_seen": 30},
    }
    detail = metric("flops", written_run(with_facts(member, told))).detail
    assert detail is not None
    assert detail["training_flop_per_sample"] == {"exact": 121.0}
    assert detail["operators"] == {"exact": {"convolution": 66.0, "matrix product": 55.0}}


def test_a_straggler_lowers_the_ensembles_flops() -> None:
    # The second member takes twice as long: 80,000 FLOP in (4 + 8) s / 1.5 members at a time.
    measured = written_run(written_member(0), written_member(1, step_s=0.2))
    assert value("flops", measured) == pytest.approx(2 * 400 * 100 / 8)
    assert value("throughput_samples_per_s", measured) == pytest.approx(2 * 400 / 8)


def test_step_and_epoch_times_are_medians() -> None:
    assert value("step_time_s", SIDE_BY_SIDE) == pytest.approx(0.1)
    assert value("epoch_time_s", SIDE_BY_SIDE) == pytest.approx(4.0)


def test_the_ceiling_adds_lanes_and_the_share_divides_by_it() -> None:
    assert value("ceiling_flops", SIDE_BY_SIDE) == 100_000
    assert value("flops_share_of_ceiling", SIDE_BY_SIDE) == pytest.approx(20_000 / 100_000)
    assert value("ceiling_flops", QUEUED) == 50_000  # one lane, used twice


def test_vflops_weighs_flops_by_the_ensembles_quality() -> None:
    # Both held-out samples right: quality 1.0, so (1.0 / 0.8)^5.
    found = metric("vflops", SIDE_BY_SIDE)
    assert found.value == pytest.approx(20_000 * 1.25**5)
    assert found.exponent == 5
    assert found.ci95 is None  # one epoch has no spread


def test_a_quality_has_wilsons_interval() -> None:
    # 2 of 2: by Wilson's formula from 2 / (2 + 3.8415) = 0.3424 to 1.
    assert metric("quality_ensemble", SIDE_BY_SIDE).ci95 == pytest.approx((0.3424, 1.0), abs=1e-4)
    labels = np.zeros(2000, np.int64)
    predictions = np.array([[0.9, 0.1]] * 1692 + [[0.1, 0.9]] * 308)  # 0.846 of 2000
    assert Top1.interval(predictions, labels) == pytest.approx((0.8295, 0.8611), abs=1e-4)


def test_the_ensemble_averages_probabilities() -> None:
    # Alone, each member gets one of the two samples wrong; the mean gets both right.
    first = written_predictions() | {"eval_predictions": np.array([[0.9, 0.1], [0.6, 0.4]])}
    second = written_predictions() | {"eval_predictions": np.array([[0.4, 0.6], [0.2, 0.8]])}
    measured = written_run(
        written_member(0, quality=0.5, predictions=first), written_member(1, quality=0.5, predictions=second)
    )
    assert value("quality_ensemble", measured) == 1.0
    assert value("quality_member_mean", measured) == 0.5


def test_member_qualities_are_summarised() -> None:
    measured = written_run(written_member(0, quality=0.7), written_member(1, quality=0.9))
    assert value("quality_member_mean", measured) == pytest.approx(0.8)
    assert value("quality_member_best", measured) == 0.9


def test_the_interval_of_the_mean_quality_stays_in_the_qualitys_range() -> None:
    measured = written_run(written_member(0, quality=0.6), written_member(1, quality=0.7))
    assert metric("quality_member_mean", measured).ci95 == pytest.approx((0.0147, 1.0), abs=1e-4)


def test_a_restarted_member_is_told_with_the_epochs_that_its_figures_cover() -> None:
    member = written_member(1, attempts=2)
    of_epoch = {kind: {"epoch": 3} for kind in ("run_start", "epoch_start", "epoch_stop", "evaluation")}
    (events,) = with_facts(member, of_epoch).events
    resumed = as_event(kind="resumed", epoch=3, step=120, wall_s=90.0)
    measured = written_run(written_member(0), replace(member, events=((resumed, *events),)), train={"epochs": 4})
    warnings = find_warnings(measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {})
    assert [warning for warning in warnings if "restarted" in warning] == [
        "member 1 was restarted from a checkpoint: its figures cover only epochs 4 to 4 of 4, which attempt 2 trained"
    ]


def test_out_of_bag_quality_is_called_optimistic_where_samples_resemble_their_neighbours() -> None:
    measured = written_run(written_member(0))
    assert metric("quality_out_of_bag", measured).detail == {"samples_predicted": 2}
    weather = measured.config.model_copy(update={"dataset": "extreme-weather"})
    detail = metric("quality_out_of_bag", replace(measured, config=weather)).detail
    assert detail is not None
    assert detail["note"] == "optimistic: members were trained on similar neighbouring samples"


def test_out_of_bag_quality_uses_only_members_that_have_not_seen_a_sample() -> None:
    # Sample 4: both predict class 0 (right). Sample 7: only the first predicts it, wrongly.
    second = written_predictions() | {
        "oob_indices": np.array([4]),
        "oob_predictions": np.array([[0.6, 0.4]], np.float32),
        "oob_labels": np.array([0]),
    }
    measured = written_run(written_member(0), written_member(1, predictions=second))
    found = metric("quality_out_of_bag", measured)
    assert (found.value, found.n) == (0.5, 2)


def test_time_to_train_all_is_last_stop_minus_first_start() -> None:
    # Starts at 99 and 199, stops at 105 and 205.
    assert value("time_to_train_all_s", QUEUED) == pytest.approx(205 - 99)
    assert value("models_per_minute", QUEUED) == pytest.approx(60 * 2 / 106)


def test_a_failed_member_is_not_counted_as_trained() -> None:
    # The failed member was last heard of at 206, 107 s after the first one started: that time counts.
    measured = written_run(written_member(0), written_member(1, start_s=200.0, state="failed"))
    assert value("time_to_train_all_s", measured) == pytest.approx(206 - 99)
    assert value("models_per_minute", measured) == pytest.approx(60 * 1 / 107)
    assert "member 1 failed: a reason" in find_warnings(
        measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {}
    )


def test_a_run_that_is_not_over_has_no_time_to_train_all() -> None:
    measured = written_run(written_member(0), written_member(1, state="running"))
    assert metric("time_to_train_all_s", measured).reason == "the run is not over"


def test_the_timings_of_several_attempts_are_never_mixed() -> None:
    measured = written_run(written_member(0), written_member(1, attempts=2))
    found = metric("time_to_train_all_s", measured)
    assert found.status == "unavailable"
    assert found.reason == "member 1 needed several attempts, whose timings are not combined"


def test_shares_of_waiting_and_harness() -> None:
    assert value("data_wait_share", SIDE_BY_SIDE) == pytest.approx(0.2)
    assert value("harness_overhead_share", SIDE_BY_SIDE) == pytest.approx(0.01)


def test_peak_memory_is_the_largest_of_any_worker() -> None:
    assert value("peak_memory_bytes", SIDE_BY_SIDE) == 1001


def test_memory_of_a_step_is_that_of_the_worker_that_needs_most() -> None:
    pair = with_step_memory(written_pair(0, {}, {}), [3000, 1000, 2000], [1500, 1600, 1700])
    found = compute_metric("step_memory_bytes", written_run(pair))
    # 3000, 1600 and 2000.
    assert (found.value, found.n) == (2200, 3)
    assert found.detail is not None and [found.detail[key] for key in ("min", "max")] == [1600, 3000]
    # Resetting the peak for each step makes the kernel forget the largest.
    assert compute_metric("peak_memory_bytes", written_run(pair)).value == 3001
    refused = with_step_memory(written_member(0), reason="the kernel does not")
    assert compute_metric("step_memory_bytes", written_run(refused)).reason == "the kernel does not"
    unset = compute_metric("step_memory_bytes", written_run(written_member(0)))
    assert unset.reason == "measure.step_memory is false"


def test_a_speed_above_the_ceiling_is_reported_as_a_bug() -> None:
    measured = written_run(written_member(0, ceiling=1000.0))
    warnings = find_warnings(measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {})
    reason = "training ran at 1000% of the measured ceiling: one of the two figures is wrong, please report it"
    assert reason in warnings
    for name in ("ceiling_flops", "flops_share_of_ceiling"):
        assert (metric(name, measured).value, metric(name, measured).reason) == (None, reason)


def test_what_was_switched_off_says_so() -> None:
    measured = written_run(written_member(0), measure={"ceiling": False}, evaluate={"out_of_bag": False})
    assert metric("ceiling_flops", measured).reason == "not measured: measure.ceiling is false"
    assert metric("quality_out_of_bag", measured).reason == "not measured: evaluate.out_of_bag is false"
    assert metric("flops_share_of_ceiling", measured).status == "unavailable"


def test_the_share_of_communication_is_the_mean_over_epochs_and_workers() -> None:
    # The epoch takes 4 s; one worker waits 1 s of it, the other 2 s.
    measured = written_run(written_pair(0, {"waited_s": 1.0}, {"waited_s": 2.0}))
    assert value("communication_share", measured) == pytest.approx((1 / 4 + 2 / 4) / 2)


def test_a_worker_that_cannot_tell_its_waiting_makes_the_share_unavailable_with_its_reason() -> None:
    told = {"waited_s": None, "waited_reason": "streams"}
    assert metric("communication_share", written_run(written_pair(0, {"waited_s": 1.0}, told))).reason == "streams"


def test_bytes_per_step_are_those_of_one_worker() -> None:
    # 40 steps: 8000 / 40 and 4000 / 40 bytes.
    measured = written_run(written_pair(0, {"sent_bytes": 8000}, {"sent_bytes": 4000}))
    assert value("communication_bytes_per_step", measured) == 150
    detail = metric("communication_bytes_per_step", measured).detail
    assert detail is not None
    assert (detail["least_of_a_worker"], detail["most_of_a_worker"]) == (100, 200)


def test_bandwidth_is_what_all_workers_of_a_member_send_per_second_of_training() -> None:
    # 40 steps in 4 s. Within nodes: 8000 + 4000 bytes, so 300 a step and 3000 a second; between nodes a tenth of it.
    told = [
        {"sent_bytes": n + n // 10, "sent_intra_node_bytes": n, "sent_inter_node_bytes": n // 10} for n in (8000, 4000)
    ]
    measured = written_run(written_pair(0, *told), written_pair(1, told[1], told[1]))
    found = metric("communication_intra_node_bytes_per_s", measured)
    assert (found.value, found.n) == (pytest.approx((3000 + 2000) / 2), 2)
    assert found.detail is not None
    assert found.detail["bytes_per_step"] == pytest.approx((300 + 200) / 2)
    assert found.detail["members"][0] == {"member": 0, "bytes_per_step": 300, "bytes_per_s": pytest.approx(3000)}
    assert value("communication_inter_node_bytes_per_s", measured) == pytest.approx((300 + 200) / 2)


EXCHANGE = ["communication_intra_node_bytes_per_s", "communication_inter_node_bytes_per_s"]


@pytest.mark.parametrize("name", ["communication_bytes_per_step", *EXCHANGE])
def test_bytes_that_no_socket_carries_are_unavailable_with_the_workers_reason(name: str) -> None:
    told = {"sent_bytes": None, "sent_reason": "nccl bypasses the TCP sockets that are counted"}
    assert metric(name, written_run(written_pair(0, told, told))).reason == told["sent_reason"]


@pytest.mark.parametrize("name", EXCHANGE)
def test_older_events_that_hold_a_total_only_have_no_bandwidth(name: str) -> None:
    found = metric(name, written_run(written_pair(0, {"sent_bytes": 1}, {"sent_bytes": 1})))
    assert "did not split bytes into intra- and inter-node traffic" in str(found.reason)


@pytest.mark.parametrize("name", ["communication_share", "communication_bytes_per_step", *EXCHANGE])
def test_a_single_worker_does_not_communicate(name: str) -> None:
    assert metric(name, SIDE_BY_SIDE).reason == "not applicable: one worker"


def test_the_bubble_is_the_mean_over_the_stages_beside_its_ideal() -> None:
    told = {"bubble_share": 0.2, "ideal_bubble_share": 0.25}
    measured = written_run(
        written_pair(0, told, {**told, "bubble_share": 0.4}), train={"parallel": "1f1b", "micro_batches": 5}
    )
    assert value("bubble_share", measured) == pytest.approx(0.3)
    assert metric("bubble_share", measured).detail == {"ideal": 0.25}


def test_staleness_is_the_mean_over_all_gradients_that_were_applied() -> None:
    measured = written_run(written_pair(0, {"staleness": [0, 1, 2, 5]}, {}))
    assert value("staleness_steps", measured) == 2
    assert metric("staleness_steps", measured).detail == {"most": 5}


def test_staging_takes_as_long_as_the_slowest_node_of_any_member() -> None:
    # Two nodes of member 0 copy 6000 + 6000 bytes in 2 + 4 s; member 1 finds its pack. 60 + 60 + 64 of 3 × 100 samples.
    copied = {"samples": 60, "bytes": 6000, "reused": False}
    first = with_staging(written_pair(0, {}, {}), {**copied, "staging_s": 2.0}, {**copied, "staging_s": 4.0})
    found = {"samples": 64, "bytes": 6400, "staging_s": 0.5, "reused": True}
    measured = written_run(first, with_staging(written_member(1), found), launch={"stage": "local"})
    assert (value("staging_time_s", measured), metric("staging_time_s", measured).n) == (4.0, 3)
    detail = metric("staging_time_s", measured).detail
    assert detail is not None
    assert detail == {
        "copied_packs": 2,
        "reused_packs": 1,
        "copied_bytes": 12_000,
        "samples_share": pytest.approx(184 / 300),
        "bytes_per_s": pytest.approx(12_000 / 6),
    }


def test_staging_that_only_found_packs_has_no_bandwidth() -> None:
    found = {"samples": 64, "bytes": 6400, "staging_s": 0.5, "reused": True}
    measured = written_run(with_staging(written_member(0), found), launch={"stage": "local"})
    detail = metric("staging_time_s", measured).detail
    assert detail is not None
    assert (detail["copied_bytes"], detail["bytes_per_s"]) == (0, None)


def test_a_run_in_which_nothing_was_staged_says_why() -> None:
    assert metric("staging_time_s", SIDE_BY_SIDE).reason == "nothing was staged: launch.stage is none"
    measured = written_run(written_member(0), launch={"stage": "local"})
    reason = metric("staging_time_s", measured).reason
    assert reason == "nothing was staged: samples of shapes are not read from disk individually"
    metrics = {name: metric(name, measured) for name in METRICS}
    assert f"launch.stage is local, but {reason}" in find_warnings(measured, metrics, {"members": []}, {})


def test_staging_before_training_is_in_no_other_time() -> None:
    member = with_staging(written_member(0), {"samples": 1, "bytes": 1, "staging_s": 50.0, "reused": False})
    for name in ("time_to_train_all_s", "flops", "throughput_samples_per_s"):
        staged, plain = (written_run(each, launch={"stage": "local"}) for each in (member, written_member(0)))
        assert value(name, staged) == value(name, plain)


def test_without_evaluated_samples_quality_is_unavailable_and_speed_is_not() -> None:
    trained = written_member(0)
    events = tuple(event for event in trained.events[0] if event.kind != "evaluation")
    member = replace(trained, events=(events,), load_predictions=dict)  # nor are there predictions
    run = written_run(member, evaluate={"samples": 0})
    for name in ("quality_ensemble", "quality_member_mean", "quality_out_of_bag", "vflops", "epochs_to_target"):
        assert (metric(name, run).value, metric(name, run).reason) == (None, "not measured: evaluate.samples is 0")
    assert metric("flops", run).value is not None


def test_synthetic_data_have_no_quality() -> None:
    member = written_member(0)
    measured = written_run(with_facts(member, {"data_ready": {"synthetic": True}}))
    assert "synthetic" in str(metric("quality_ensemble", measured).reason)
    assert "synthetic" in str(metric("vflops", measured).reason)


def test_a_pipelines_throughput_counts_each_sample_once() -> None:
    # Two stages share one copy of the model: 10 samples a step of 0.1 s, not 20.
    measured = written_run(written_pair(0, {}, {}), train={"parallel": "gpipe", "micro_batches": 5})
    assert value("throughput_samples_per_s", measured) == pytest.approx(100)
    assert value("throughput_samples_per_s", written_run(written_pair(0, {}, {}))) == pytest.approx(200)


# An epoch of `written_member` lasts from 100 to 104.
UTILISATION = ["cpu_utilisation", "gpu_utilisation", "network_bytes_per_s"]


def test_utilisation_is_the_mean_over_the_time_inside_epochs_after_warm_up() -> None:
    # Warm-up is the first step, 0.1 s with its wait.
    samples = [
        written_sample(99.5, busy=0.2),  # before the epoch
        written_sample(101.0, busy=0.5, over_s=1.5),  # 0.9 s of it inside
        written_sample(103.0, busy=0.9, over_s=2.0),
        written_sample(106.0, busy=0.3, over_s=3.0),  # one second of it inside
    ]
    measured = written_run(with_usage(written_member(0), *samples))
    found = metric("cpu_utilisation", measured)
    assert (found.value, found.n) == (pytest.approx(0.25), 3)  # what its own processes used of its one core
    assert found.detail is not None
    total = found.detail["total"]  # what everybody used of it
    assert total == pytest.approx((0.9 * 0.5 + 2 * 0.9 + 1 * 0.3) / 3.9)
    (node,) = found.detail["nodes"]
    assert node == {
        "member": 0,
        "node": "node1",
        "own": pytest.approx(0.25),
        "total": total,
        "user": pytest.approx(total - 0.1),
        "system": pytest.approx(0.1),
        "iowait": pytest.approx(0.01),
        "steal": pytest.approx(0.01),
        "whole_node": pytest.approx(total),
        "samples": 3,
        "series": "events/0000/attempt-1/usage-0.jsonl",
    }


def test_a_member_with_more_cores_weighs_more() -> None:
    one = with_usage(written_member(0), written_sample(102.0, busy=0.4))
    three = with_usage(written_member(1), written_sample(102.0, busy=0.8), cores="1-3")
    found = metric("cpu_utilisation", written_run(one, three))
    assert found.value == pytest.approx((0.25 + 0.25) / 4)  # both keep a quarter of a core busy
    assert found.detail is not None
    assert found.detail["total"] == pytest.approx((1 * 0.4 + 3 * 0.8) / 4)


def test_the_utilisation_of_accelerators_is_their_mean() -> None:
    told = [
        {"utilisation": 1.0, "memory_bytes": 3000, "power_w": 300.0},
        {"utilisation": 0.5, "memory_bytes": 1000, "power_w": None},
    ]
    member = with_usage(written_member(0), written_sample(102.0, accelerators=told), accelerators=["GPU-1", "GPU-2"])
    found = metric("gpu_utilisation", written_run(member))
    assert found.value == 0.75
    assert found.detail is not None
    (node,) = found.detail["nodes"]
    assert (node["accelerators"], node["memory_bytes"], node["power_w"]) == (2, 2000, None)


def test_the_network_of_a_node_is_all_its_interfaces_both_ways() -> None:
    # Over two seconds: 3000 + 1000 bytes by Ethernet, 6000 by InfiniBand; 500 by the loopback, which stays inside.
    member = with_usage(written_member(0), written_sample(102.0, over_s=2.0))
    found = metric("network_bytes_per_s", written_run(member))
    assert found.value == pytest.approx(10_000 / 2)
    assert found.detail is not None
    (node,) = found.detail["nodes"]
    assert (node["received_bytes_per_s"], node["sent_bytes_per_s"]) == pytest.approx((1500, 3500))
    assert (node["loopback_bytes_per_s"], node["interfaces"]) == (250, ["eth0", "ib0/1"])


@pytest.mark.parametrize("name", UTILISATION)
def test_without_samples_utilisation_says_why(name: str) -> None:
    switched_off = written_run(written_member(0), measure={"usage_seconds": 0})
    assert metric(name, switched_off).reason == "not measured: measure.usage_seconds is 0"
    no_file = written_run(written_member(0))
    assert metric(name, no_file).reason == "member 0 has no utilisation series for some of its nodes"
    busy = [{"utilisation": 1.0, "memory_bytes": 0, "power_w": None}]
    too_late = written_run(with_usage(written_member(0), written_sample(110.0, accelerators=busy)))
    assert "of member 0 on node1 is within its training time" in str(metric(name, too_late).reason)


def test_what_a_node_could_not_tell_is_unavailable_for_its_reason() -> None:
    start = {"unavailable": {"accelerators": "no driver"}}
    failed = written_sample(102.0, cpu=None, unavailable={"cpu": "PermissionError: /proc/stat"})
    measured = written_run(with_usage(written_member(0), failed, **start))
    assert metric("gpu_utilisation", measured).reason == "no driver"
    own = metric("cpu_utilisation", measured)  # by the processes' own counts
    assert (own.value, own.detail and own.detail["total"]) == (0.25, None)
    hidden = written_sample(102.0, processes=None, unavailable={"processes": "ProcessLookupError: hidden"})
    found = metric("cpu_utilisation", written_run(with_usage(written_member(0), hidden)))
    assert (found.value, found.reason) == (None, "ProcessLookupError: hidden")


@pytest.mark.parametrize("quiet_first", [True, False])
def test_cores_that_others_use_on_one_of_several_nodes_are_warned_of(quiet_first: bool) -> None:
    nodes = [{"member": 0, "total": total, "own": 0.2, "steal": 0.0} for total in (0.2, 0.95)]
    found = metric("cpu_utilisation", written_run(with_usage(written_member(0), written_sample(102.0))))
    detail = {**(found.detail or {}), "nodes": nodes if quiet_first else nodes[::-1]}
    measured = written_run(written_member(0))
    metrics = {name: metric(name, measured) for name in METRICS}
    metrics["cpu_utilisation"] = found.model_copy(update={"detail": detail})
    lines = find_warnings(measured, metrics, {"members": []}, {})
    assert any("other processes took up to 75% of the core time of member 0" in line for line in lines)


def test_cores_that_others_use_are_warned_of() -> None:
    def warned(busy: float) -> bool:
        measured = written_run(with_usage(written_member(0), written_sample(102.0, busy=busy)))
        found = find_warnings(measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {})
        return any("other processes took up to 16% of the core time of member 0" in line for line in found)

    assert warned(0.4)  # 0.25 of it the member's own; and 0.01 the hypervisor took
    assert not warned(0.34)


def test_utilisation_leaves_out_warm_up_where_something_else_is_left() -> None:
    # One epoch from 100 to 104; its first step takes 2 s, as one that compiles, so warm-up ends at 102.
    member = written_member(0)
    steps = {"step_s": [2.0] + [0.05] * 39, "wait_s": [0.0] * 40}
    member = with_facts(member, {"steps": steps})
    idle, busy = written_sample(101.0, busy=0.1), written_sample(103.0, busy=0.9)
    for samples, total in ((idle, busy), 0.9), ((idle,), 0.1):
        detail = metric("cpu_utilisation", written_run(with_usage(member, *samples))).detail
        assert detail is not None
        assert detail["total"] == pytest.approx(total)
