"""Batches of predictions: consecutive samples, or images of one shape with no more pixels than training has."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from trainmark.data.source import alike


def source_of(shapes: Any) -> Any:
    return SimpleNamespace(split=SimpleNamespace(shapes=None if shapes is None else np.array(shapes)))


def test_samples_of_one_shape_are_predicted_in_their_order() -> None:
    batches = alike(source_of(None), np.arange(5), batch_size=2, training_batch=1)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_images_of_the_same_shape_share_a_batch_wherever_they_are() -> None:
    batches = alike(source_of([(2, 3), (3, 2), (2, 3), (2, 3)]), np.array([3, 1, 0, 2]), batch_size=2, training_batch=9)
    assert [batch.tolist() for batch in batches] == [[0, 2], [3], [1]]  # places in what is asked for


def test_a_batch_has_no_more_pixels_than_a_training_batch_of_mean_images() -> None:
    shapes = [(100, 100)] * 10 + [(10, 10)] * 10  # 5,050 pixels in the mean
    batches = alike(source_of(shapes), np.arange(20), batch_size=8, training_batch=4)
    assert [len(batch) for batch in batches] == [8, 2] + [2] * 5  # 4 × 5,050 / 10,000 = 2 large ones
    alone = alike(source_of([(4000, 4000), (1, 1)]), np.arange(2), batch_size=8, training_batch=1)
    assert sorted(batch.tolist() for batch in alone) == [[0], [1]]  # an image above it is alone
