"""Pixels, and every speed by the work of each step, on events of steps of unlike shapes written out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.run_events import as_event
from tests.unit.test_report_page import written_result
from tests.unit.test_result_table import FINISHED, printed
from tests.unit.written_events import with_counters, with_facts, written_member, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured, Member
from trainmark.collect.progress import ProgressReader
from trainmark.spec.metrics import metric_rows
from trainmark.spec.result import Metric
from trainmark.spec.run_folder import RunFolder

PIXEL_METRICS = (
    "megapixels_per_step",
    "informative_megapixels_per_step",
    "padding_megapixels_per_step",
    "padding_ratio",
    "seconds_per_megapixel",
    "seconds_per_informative_megapixel",
)
COUNTER_METRICS = ("instructions_per_megapixel", "instructions_per_cycle", "cache_misses_per_1000_instructions")
# Small and large steps in turn: 1 and 4 MP in 0.1 and 0.4 s, of which 0.5 and 1 MP are informative.
SMALL_FIRST = [1, 4] * 20


def unlike(**steps: Any) -> Member:
    """One epoch of 40 steps: 8 samples and 1 MP, then 2 samples and 4 MP; 0.1 s and 1,000 FLOP per MP."""
    facts = {
        "step_s": [0.1 * size for size in SMALL_FIRST],
        "wait_s": [0.0] * 40,
        "epoch": 0,
        "samples": [8, 2] * 20,
        "informative_px": [500_000, 1_000_000] * 20,
        "total_px": [size * 1_000_000 for size in SMALL_FIRST],
        "flop": {
            "exact": [1000.0 * size for size in SMALL_FIRST],
            "ai500": [900.0 * size for size in SMALL_FIRST],
        },
        **steps,
    }
    return with_facts(written_member(0), {"steps": facts, "epoch_stop": {"epoch_s": 10.0, "samples": 1}})


def metric(name: str, measured: Measured) -> Metric:
    return compute_metric(name, measured)


def value(name: str, measured: Measured) -> float:
    found = metric(name, measured)
    assert found.value is not None, found.reason
    return found.value


def test_megapixels_of_a_step_are_informative_and_padding() -> None:
    run = written_run(unlike())
    for name, (least, most) in {
        "megapixels_per_step": (1, 4),
        "informative_megapixels_per_step": (0.5, 1),
        "padding_megapixels_per_step": (0.5, 3),
    }.items():
        found = metric(name, run)
        assert found.value == pytest.approx((least + most) / 2) and found.n == 40
        assert found.ci95 == pytest.approx((least, most))
        assert found.detail is not None
        spread = {key: found.detail[key] for key in ("min", "mean", "max")}
        assert spread == pytest.approx({"min": least, "mean": (least + most) / 2, "max": most})


def test_the_padding_ratio_is_that_of_all_steps_together() -> None:
    # 20 · (1 + 4) over 20 · (0.5 + 1), not the mean of 2 and 4.
    assert value("padding_ratio", written_run(unlike())) == pytest.approx(100 / 30)


def test_time_per_megapixel_is_all_time_over_all_pixels_of_settled_steps() -> None:
    run = written_run(unlike())
    found = metric("seconds_per_megapixel", run)
    assert found.value == pytest.approx(0.1)
    assert found.ci95 == pytest.approx((0.1, 0.1)) and found.n == 10
    informative = metric("seconds_per_informative_megapixel", run)
    # The first, small, step is warm-up. 9.9 s over 19 · 0.5 + 20 · 1 MP; the median step has 0.4 s/MP, the mean 0.303.
    assert informative.value == pytest.approx(9.9 / 29.5)
    assert informative.detail is not None
    of_steps = [informative.detail[key] for key in ("min", "median", "max", "steps")]
    assert of_steps == pytest.approx([0.2, 0.4, 0.4, 39])


def test_the_interval_of_time_per_pixel_is_the_jackknife_over_blocks_of_steps() -> None:
    # Three steps after warm-up, a block each: 6 s over 12 MP. Left out in turn: 5/10, 4/9, 3/5.
    member = unlike(
        step_s=[9.0, 1.0, 2.0, 3.0],
        total_px=[1_000_000, 2_000_000, 3_000_000, 7_000_000],
        informative_px=[1_000_000] * 4,
        wait_s=[0.0] * 4,
        samples=[1] * 4,
        flop={},
    )
    found = metric("seconds_per_megapixel", written_run(member))
    without = np.array([5 / 10, 4 / 9, 3 / 5])
    error = np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum())
    # Student's t of two degrees of freedom is 4.303; no time is below zero.
    assert found.value == pytest.approx(0.5) and found.n == 3
    assert found.ci95 == pytest.approx((max(0, 0.5 - 4.3027 * error), 0.5 + 4.3027 * error), rel=1e-4)


def test_one_settled_step_has_no_interval_of_time_per_pixel() -> None:
    steps = {"step_s": [9.0, 1.0], "total_px": [4, 2], "informative_px": [2, 1], "wait_s": [0.0] * 2}
    found = metric("seconds_per_megapixel", written_run(unlike(**steps, samples=[1, 1], flop={})))
    assert (found.value, found.ci95, found.n) == (pytest.approx(500_000), None, 1)


def test_steps_of_unlike_size_are_settled_if_their_time_per_pixel_is() -> None:
    # Sizes grow fourfold within the run: by their durations alone the steps would never settle.
    sizes = [1] * 20 + [4] * 20
    grown = unlike(
        step_s=[0.1 * size for size in sizes],
        total_px=[size * 1_000_000 for size in sizes],
        informative_px=[500_000] * 40,
    )
    assert (grown.steady.warmup_steps, grown.steady.settled) == (1, True)
    alike = with_facts(written_member(0), {"steps": {"step_s": [0.1 * size for size in sizes]}})
    assert not alike.steady.settled


def test_throughput_counts_the_samples_of_each_step() -> None:
    # Without the first step: 192 samples in 9.9 s. A batch of 10 would make it 39.4 samples/s.
    found = metric("throughput_samples_per_s", written_run(unlike()))
    assert found.value == pytest.approx(192 / 9.9)
    assert found.detail is not None and found.detail["per_member"]["mean"] == pytest.approx(192 / 9.9)


def test_flops_are_those_of_each_step_whole_and_in_steady_state() -> None:
    run = written_run(unlike())
    whole, steady = metric("flops", run), metric("flops_steady", run)
    # 100 MP of 1,000 FLOP in 10 s; the model's own 100 FLOP per sample are of another shape.
    assert whole.value == pytest.approx(10_000)
    assert whole.detail is not None and steady.detail is not None
    assert whole.detail["by_convention"] == pytest.approx({"exact": 10_000, "ai500": 9_000})
    assert whole.detail["training_flop_per_sample"] == pytest.approx({"exact": 500, "ai500": 450})
    assert whole.detail["samples"] == 200
    assert "operators" not in whole.detail
    assert steady.value == pytest.approx(10_000)
    assert steady.detail["by_convention"] == pytest.approx({"exact": 10_000, "ai500": 9_000})
    assert steady.detail["whole_training_share"] == pytest.approx(1)


def test_warm_up_is_the_excess_of_the_first_steps_over_what_their_size_takes() -> None:
    # The first, of 1 MP, takes 0.9 s: 0.8 s more than 0.1 s.
    step_s = [0.9, *(0.1 * size for size in SMALL_FIRST[1:])]
    detail = metric("flops_steady", written_run(unlike(step_s=step_s))).detail
    assert detail is not None and detail["warmup_s"] == pytest.approx(0.8)


def test_apc_is_the_mean_of_the_steps_flop() -> None:
    found = metric("apc_flop", written_run(unlike()))
    assert found.value == pytest.approx(2_500)
    assert found.detail is not None and found.detail["global_batch"] == 5


def test_flop_to_target_are_those_of_the_steps_before_it() -> None:
    reached = with_facts(unlike(), {"epoch_stop": {"next_step": 3, "epoch_s": 10.0}})
    assert value("flop_to_target", written_run(reached)) == pytest.approx(1000 * (1 + 4 + 1))
    (events,) = reached.events
    restarted = replace(reached, events=((as_event(kind="resumed"), *events),))
    run = written_run(restarted, train={"stop_at_target": True})
    assert metric("flop_to_target", run).reason == (
        "member 0 was restarted, and the shapes of its steps before that are not known"
    )


def test_an_epoch_has_the_samples_and_flop_of_its_own_steps() -> None:
    member = unlike()
    (events,) = member.events
    begun = as_event(kind="steps", epoch=1, step_s=[9.0], samples=[7], total_px=[1], informative_px=[1])
    member = replace(member, events=((*events, begun),))
    with pytest.raises(ValueError, match="0 values for the 1 steps from 0 on"):
        _ = written_run(member).flop_of(member)  # a step without FLOPs among those that have them
    (epoch,) = member.epochs
    assert (epoch.samples, epoch.flop) == (200, {"exact": 100_000, "ai500": 90_000})


def test_images_of_one_shape_are_all_informative() -> None:
    member = with_facts(written_member(0), {"model_ready": {"input_shape": [3, 200, 500]}})
    run = written_run(member)  # 10 samples of 0.1 MP per step of 0.1 s
    found = {name: value(name, run) for name in PIXEL_METRICS}
    assert found == pytest.approx(dict(zip(PIXEL_METRICS, (1, 1, 0, 1, 0.1, 0.1), strict=True)))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [([2], "samples of 2 are no images"), (None, "the shape of the samples was not recorded")],
)
def test_other_data_have_no_pixels_and_say_why(shape: list[int] | None, reason: str) -> None:
    run = written_run(with_facts(written_member(0), {"model_ready": {"input_shape": shape}}))
    assert {metric(name, run).reason for name in PIXEL_METRICS} == {reason}


def test_the_table_of_a_run_shows_pixels_of_variable_shapes_alone() -> None:
    def labels(member: Member) -> list[str]:
        metrics = {name: metric(name, written_run(member)) for name in (*PIXEL_METRICS, "step_time_s")}
        text = printed(written_result(metrics=metrics, members=[FINISHED]))
        return [name for name in metrics if f"\n{metric_rows()[name].label} " in text]

    assert labels(unlike()) == [*PIXEL_METRICS, "step_time_s"]
    assert labels(with_facts(written_member(0), {"model_ready": {"input_shape": [3, 200, 500]}})) == ["step_time_s"]


def counted(**counters: Any) -> Measured:
    return written_run(with_counters(unlike(), **counters))


def test_counters_are_per_megapixel_per_cycle_and_per_1000_instructions() -> None:
    run = counted(instructions=6_000_000, cycles=4_000_000, cache_misses=12_000)
    assert [value(name, run) for name in COUNTER_METRICS] == pytest.approx([60_000, 1.5, 2.0])
    detail = metric("instructions_per_megapixel", run).detail
    assert detail is not None and detail["per_informative_megapixel"] == pytest.approx(200_000)


def test_counters_that_are_missing_say_why() -> None:
    def reasons(run: Measured) -> list[str | None]:
        return [metric(name, run).reason for name in COUNTER_METRICS]

    assert reasons(written_run(unlike())) == ["hardware counters were not recorded"] * 3
    assert reasons(counted(reason="this machine has none")) == ["this machine has none"] * 3
    partly = reasons(counted(instructions=6, cycles=4))
    assert partly == [None, None, "the processor did not count cache misses"]


def test_the_work_of_a_step_is_what_it_recorded() -> None:
    run = written_run(unlike())
    assert np.array_equal(run.samples_of(run.members[0]), [8, 2] * 20)
    assert np.array_equal(run.flop_of(run.members[0])["ai500"], [900, 3600] * 20)


def test_progress_counts_the_samples_of_the_newest_steps(tmp_path: Path) -> None:
    run = written_run(unlike())
    folder = RunFolder(tmp_path)
    path = folder.attempt(0, 1).rank_events(0)
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{event.model_dump_json(exclude_unset=True)}\n" for event in run.members[0].events[0]))
    (progress,) = ProgressReader(folder, run.config, run.plan).read()
    # 5 samples in the mean over a median of 0.25 s.
    assert progress.samples_per_s == pytest.approx(20)
