"""Every schedule: a pure function of the step, its share of the peak above 0 and at most 1 over a whole training."""

import pytest

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import SCHEDULES
from trainmark.workloads.learning_rate import Progress


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_shares_lie_between_zero_and_one_and_are_the_same_each_time(name: str) -> None:
    settings = TrainConfig(
        epochs=3,
        batch_size=8,
        optimizer="sgd",
        learning_rate=0.2,
        reference_batch_size=8,
        schedule=name,
        warmup_epochs=0.55,
    )
    share_of_peak = SCHEDULES.load(name)
    steps = [Progress(step, steps_per_epoch=10, total_steps=30, warmup_steps=5.5) for step in range(6, 30)]
    shares = [share_of_peak(progress, settings) for progress in steps]
    assert all(0 < share <= 1 for share in shares)
    assert shares == [share_of_peak(progress, settings) for progress in steps]
