"""AI500's default schedule: linear scaling, gradual warm-up, polynomial decay; values by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.spec.config import TrainConfig
from trainmark.spec.schedule import Progress
from trainmark.train.schedules.warmup_linear_scaling import learning_rate


def rate(step: int, batch: int = 32, **settings: Any) -> float:
    values = {"learning_rate": 0.1, "reference_batch_size": 32, "warmup_epochs": 1, **settings}
    train = TrainConfig(epochs=5, batch_size=32, optimizer="sgd", schedule="warmup-linear-scaling", **values)
    return learning_rate(Progress(step, steps_per_epoch=10, total_steps=50, global_batch_size=batch), train)


def test_the_rate_rises_evenly_to_its_peak() -> None:
    assert [rate(step) for step in (0, 4, 9)] == pytest.approx([0.01, 0.05, 0.1])


def test_the_peak_grows_with_the_global_batch() -> None:
    assert rate(9, batch=256) == pytest.approx(0.8)


def test_the_rate_falls_linearly_towards_zero() -> None:
    # 40 steps of decay: halfway at step 30, one fortieth at the last step.
    assert [rate(step) for step in (10, 30, 49)] == pytest.approx([0.1, 0.05, 0.1 / 40])


def test_decay_power_two_and_zero() -> None:
    assert rate(30, decay_power=2) == pytest.approx(0.025)
    assert rate(49, decay_power=0) == pytest.approx(0.1)


def test_without_warm_up_the_rate_starts_at_its_peak() -> None:
    assert rate(0, warmup_epochs=0) == pytest.approx(0.1)


@given(step=st.integers(0, 49), warmup=st.floats(0, 5), power=st.floats(0, 4))
def test_the_rate_is_never_above_its_peak_nor_below_zero(step: int, warmup: float, power: float) -> None:
    assert 0 <= rate(step, warmup_epochs=warmup, decay_power=power) <= 0.1 + 1e-12
