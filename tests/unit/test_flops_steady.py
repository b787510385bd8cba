"""FLOPS in steady state beside those of the whole training, and how long to train until they agree."""

import pytest

from tests.unit.written_events import with_facts, written_member, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured
from trainmark.collect.warnings import find_warnings
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric


def metric(name: str, measured: Measured) -> Metric:
    return compute_metric(name, measured)


def run_with(first_s: float, epoch_s: float) -> Measured:
    """A member of one epoch: a first step that compiles, then 39 of 0.1 s; 10 samples of 100 FLOP each."""
    member = written_member(0)
    told = {
        "steps": {"step_s": [first_s] + [0.1] * 39, "wait_s": [0.0] * 40},
        "epoch_stop": {"epoch_s": epoch_s},
    }
    return written_run(with_facts(member, told))


def warnings_of(measured: Measured) -> list[str]:
    found = find_warnings(measured, {name: metric(name, measured) for name in METRICS}, {"members": []}, {})
    return [line for line in found if "over the whole training" in line]


def test_they_are_throughput_times_flop_per_sample_with_its_interval() -> None:
    measured = written_run(written_member(0), written_member(1))
    found, rate = metric("flops_steady", measured), metric("throughput_samples_per_s", measured)
    assert rate.value is not None and rate.ci95 is not None
    assert found.value == pytest.approx(100 * rate.value) == pytest.approx(20_000)
    assert found.ci95 == pytest.approx((100 * rate.ci95[0], 100 * rate.ci95[1]))
    assert (found.convention, found.n) == ("exact", rate.n)
    assert found.detail is not None
    assert found.detail["by_convention"] == pytest.approx({"exact": 20_000, "ai500": 18_000})


def test_a_run_without_warm_up_to_speak_of_has_the_same_flops_twice_and_no_warning() -> None:
    measured = written_run(written_member(0))
    assert metric("flops_steady", measured).value == pytest.approx(metric("flops", measured).value)
    assert warnings_of(measured) == []


def test_warm_up_is_in_the_flops_of_the_whole_training_and_not_in_the_share_of_the_ceiling() -> None:
    # 40 s of compilation and 4 s in steady state: 40,000 FLOP in 44 s.
    measured = run_with(first_s=40.1, epoch_s=44.0)
    assert metric("flops", measured).value == pytest.approx(40_000 / 44)
    assert metric("flops_steady", measured).value == pytest.approx(10_000)
    assert metric("flops_share_of_ceiling", measured).value == pytest.approx(10_000 / 50_000)
    # The score stays on the whole training: both held-out samples are right, so × (1 / 0.8)^5.
    assert metric("vflops", measured).value == pytest.approx(40_000 / 44 * 1.25**5)


def test_the_warning_says_how_long_a_run_must_be() -> None:
    # 40 s are 5 % of 800 s: 760 s of settled epochs of 4 s.
    assert warnings_of(run_with(first_s=40.1, epoch_s=44.0)) == [
        "FLOPS over the whole training are 91% below steady state: warm-up took 40 s of 44 s. They "
        "agree within 5% after about 13 min 20 s of training: --set train.epochs=190"
    ]


def test_time_between_steps_is_not_cured_by_longer_training() -> None:
    assert warnings_of(run_with(first_s=0.1, epoch_s=5.0)) == [
        "FLOPS over the whole training are 20% below steady state: 1 s of each epoch are spent between steps"
    ]


def test_a_run_that_became_slower_says_so() -> None:
    member = written_member(0)
    steps = {"step_s": [0.02] * 16 + [0.1] * 24, "wait_s": [0.0] * 40}
    told = {"steps": steps, "epoch_stop": {"epoch_s": 2.72}}
    (found,) = warnings_of(written_run(with_facts(member, told)))
    assert found.endswith("above steady state: steps became slower")
