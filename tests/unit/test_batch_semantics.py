"""What a global batch is: workers, accumulation, stages; what weak and strong scaling keep constant."""

from typing import Any

import numpy as np
import pytest

from trainmark.data.epochs import replica_batches, steps_per_epoch
from trainmark.spec.config import TrainConfig
from trainmark.spec.layout import global_batch, layout_of


def recipe(**settings: Any) -> TrainConfig:
    values = {"batch_size": 8, "optimizer": "sgd", "schedule": "constant", **settings}
    return TrainConfig(epochs=1, learning_rate=0.1, reference_batch_size=8, **values)


@pytest.mark.parametrize(
    ("settings", "workers", "replicas", "stages", "batch"),
    [
        ({}, 1, 1, 1, 8),
        ({}, 4, 4, 1, 32),
        ({"accumulation": 3}, 4, 4, 1, 96),
        ({"parallel": "sharded"}, 4, 4, 1, 32),
        ({"parallel": "model"}, 4, 1, 4, 8),
        ({"parallel": "gpipe"}, 4, 1, 4, 8),
        ({"parallel": "1f1b", "stages": 2}, 4, 2, 2, 16),
        ({"parallel": "gpipe", "stages": 2}, 6, 3, 2, 24),
    ],
)
def test_the_global_batch_is_batch_times_accumulation_times_copies_of_the_model(
    settings: dict[str, Any], workers: int, replicas: int, stages: int, batch: int
) -> None:
    train = recipe(**settings)
    assert layout_of(train, workers) == (replicas, stages)
    assert global_batch(train, workers) == batch


def test_neighbouring_ranks_share_one_copy_of_the_model() -> None:
    layout = layout_of(recipe(parallel="gpipe", stages=2), 6)
    assert [layout.replica_of(rank) for rank in range(6)] == [0, 0, 1, 1, 2, 2]
    assert [layout.stage_of(rank) for rank in range(6)] == [0, 1, 0, 1, 0, 1]


def test_weak_scaling_keeps_the_batch_of_a_worker_and_has_fewer_steps() -> None:
    assert [steps_per_epoch(960, recipe(), workers) for workers in (1, 2, 4)] == [120, 60, 30]


def test_strong_scaling_keeps_the_global_batch_and_the_steps() -> None:
    splits = [(recipe(batch_size=32), 1), (recipe(batch_size=16), 2), (recipe(batch_size=8), 4)]
    assert {global_batch(train, workers) for train, workers in splits} == {32}
    assert {steps_per_epoch(960, train, workers) for train, workers in splits} == {30}


def test_accumulation_sees_the_samples_of_as_many_workers() -> None:
    order = np.arange(64)
    accumulated = replica_batches(order, 0, recipe(accumulation=4), 1)
    of_workers = np.concatenate([replica_batches(order, rank, recipe(), 4) for rank in range(4)], axis=1)
    assert np.array_equal(accumulated, of_workers)


def test_all_stages_of_a_copy_see_the_same_samples() -> None:
    train = recipe(parallel="gpipe", stages=2)
    layout = layout_of(train, 4)
    rows = [replica_batches(np.arange(64), layout.replica_of(rank), train, 4).tolist() for rank in range(4)]
    assert rows[0] == rows[1] != rows[2] == rows[3]
    assert rows[0][0] == list(range(8)) and rows[2][0] == list(range(8, 16))
