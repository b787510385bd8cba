"""The learning rate of a step: scaling, warm-up, every schedule and the final collapse; values by hand."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import SCHEDULES
from trainmark.workloads.learning_rate import Progress, learning_rate, weight_decay_factor


def settings_of(**settings: Any) -> TrainConfig:
    values = {"learning_rate": 0.1, "reference_batch_size": 32, "schedule": "polynomial", **settings}
    return TrainConfig(epochs=5, batch_size=32, optimizer="sgd", **values)


def progress_of(step: int, settings: TrainConfig) -> Progress:
    """Five epochs of ten steps."""
    return Progress(step, steps_per_epoch=10, total_steps=50, warmup_steps=10 * settings.warmup_epochs)


def rate(step: int, batch: int = 32, **chosen: Any) -> float:
    settings = settings_of(**{"warmup_epochs": 1, **chosen})
    return learning_rate(progress_of(step, settings), batch, settings, SCHEDULES.load(settings.schedule))


def test_gradual_warm_up_rises_evenly_to_the_peak() -> None:
    assert [rate(step) for step in (0, 4, 9)] == pytest.approx([0.01, 0.05, 0.1])


def test_constant_warm_up_waits_at_the_rate_of_the_reference_batch() -> None:
    # 256 / 32 = 8 times the batch: the peak is 0.8, warm-up stays at 0.1.
    rates = [rate(step, batch=256, warmup="constant") for step in (0, 9, 10)]
    assert rates == pytest.approx([0.1, 0.1, 0.8])


def test_constant_warm_up_is_never_above_the_peak() -> None:
    assert rate(0, batch=16, warmup="constant") == pytest.approx(0.05)


@pytest.mark.parametrize(("scaling", "peak"), [("linear", 0.4), ("square-root", 0.2), ("none", 0.1)])
def test_the_peak_grows_with_the_global_batch_as_chosen(scaling: str, peak: float) -> None:
    assert rate(9, batch=128, rate_scaling=scaling) == pytest.approx(peak)


def test_polynomial_of_power_one_falls_in_a_line_towards_zero() -> None:
    # 40 steps of decay: halfway at step 30, one fortieth at the last step.
    assert [rate(step) for step in (10, 30, 49)] == pytest.approx([0.1, 0.05, 0.1 / 40])


def test_polynomial_of_power_two_and_zero() -> None:
    assert rate(30, decay_power=2) == pytest.approx(0.025)
    assert rate(49, decay_power=0) == pytest.approx(0.1)


def test_without_warm_up_the_rate_starts_at_its_peak() -> None:
    assert rate(0, warmup_epochs=0) == pytest.approx(0.1)


def test_constant_stays() -> None:
    assert [rate(step, schedule="constant") for step in (10, 49)] == pytest.approx([0.1, 0.1])


def test_step_falls_by_its_factor_at_whole_periods_counted_from_the_first_epoch() -> None:
    rates = [rate(step, schedule="step", decay_epochs=2, decay_factor=0.5) for step in (10, 19, 20, 39, 40, 49)]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025])


def test_step_at_stated_epochs_falls_there_and_nowhere_else() -> None:
    # The recipe of ResNet-50: 90 epochs, here of ten steps.
    settings = settings_of(schedule="step", decay_at="30,60,80")
    steps = [
        10 * epoch + last for epoch, last in [(0, 0), (29, 9), (30, 0), (59, 9), (60, 0), (79, 9), (80, 0), (89, 9)]
    ]
    shares = [SCHEDULES.load("step")(Progress(step, 10, 900), settings) for step in steps]
    assert shares == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_step_at_a_part_of_an_epoch_falls_at_the_step_that_begins_there() -> None:
    # 0.3 epochs of ten steps are three steps.
    chosen = {"schedule": "step", "decay_at": [0.3, 1.7], "decay_factor": 0.5, "warmup_epochs": 0}
    assert [rate(step, **chosen) for step in (2, 3, 16, 17)] == pytest.approx([0.1, 0.05, 0.05, 0.025])


def test_cosine_is_half_way_down_in_the_middle() -> None:
    # 40 steps after warm-up: at the first, a quarter, the middle, three quarters.
    rates = [rate(step, schedule="cosine") for step in (10, 20, 30, 40)]
    expected = [0.1, 0.05 * (1 + math.sqrt(0.5)), 0.05, 0.05 * (1 - math.sqrt(0.5))]
    assert rates == pytest.approx(expected)


def test_cyclic_turns_at_its_floor_and_comes_back() -> None:
    # Cycles of two epochs = 20 steps from step 10 on; the floor is 0.02.
    chosen = {"schedule": "cyclic", "cycle_epochs": 2, "cycle_floor": 0.2}
    assert [rate(step, **chosen) for step in (10, 15, 20, 25, 30)] == pytest.approx([0.1, 0.06, 0.02, 0.06, 0.1])


def test_collapsed_final_epochs_fall_by_power_two_from_where_the_schedule_stood() -> None:
    # The last two epochs, steps 30 to 49: from 0.05 (half of the linear decay) × (left / 20)².
    rates = [rate(step, collapse_epochs=2) for step in (29, 30, 40, 49)]
    assert rates == pytest.approx([0.1 * 21 / 40, 0.05, 0.05 / 4, 0.05 / 400])


def test_collapsed_final_epochs_double_weight_decay() -> None:
    settings = settings_of(collapse_epochs=2)
    factors = [weight_decay_factor(progress_of(step, settings), settings) for step in (0, 29, 30, 49)]
    assert factors == [1.0, 1.0, 2.0, 2.0]
    assert weight_decay_factor(progress_of(49, settings_of()), settings_of()) == 1.0


@given(
    step=st.integers(0, 49),
    warmup=st.floats(0, 5),
    power=st.floats(0, 4),
    collapse=st.floats(0, 6),
    schedule=st.sampled_from(sorted(SCHEDULES)),
)
def test_the_rate_is_never_above_its_peak_nor_below_zero(
    step: int, warmup: float, power: float, collapse: float, schedule: str
) -> None:
    chosen = {"warmup_epochs": warmup, "decay_power": power, "collapse_epochs": collapse, "schedule": schedule}
    assert 0 <= rate(step, **chosen) <= 0.1 + 1e-12
