"""Every schedule: a pure function of the step, positive and finite over a whole training."""

import math

import pytest

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import SCHEDULES
from trainmark.spec.schedule import Progress


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_rates_are_positive_finite_and_the_same_each_time(name: str) -> None:
    settings = TrainConfig(
        epochs=3,
        batch_size=8,
        optimizer="sgd",
        learning_rate=0.2,
        reference_batch_size=8,
        schedule=name,
        warmup_epochs=0.5,
    )
    schedule = SCHEDULES.load(name)
    rates = [schedule(Progress(step, 10, 30, 16), settings) for step in range(30)]
    assert all(rate > 0 and math.isfinite(rate) for rate in rates)
    assert rates == [schedule(Progress(step, 10, 30, 16), settings) for step in range(30)]
