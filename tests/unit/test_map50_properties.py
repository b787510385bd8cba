"""What holds of mean average precision whatever the detections are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.written_detections import Array, random_set
from trainmark.workloads.quality.detections import table_of, truth_of
from trainmark.workloads.quality.map50 import Map50, average_precision, find_matches, rank_by_class

seeds = st.integers(0, 2**32 - 1)


def with_false_one(predictions: Array, score: float, image: int, class_: int) -> Array:
    """One detection more, far from everything."""
    row = np.full((len(predictions), 1, 6), -1, np.float32)
    row[image] = (100, 100, 104, 104, score, class_)
    return np.concatenate([predictions, row], axis=1)


@settings(max_examples=30)
@given(seed=seeds, ties=st.booleans())
def test_it_lies_between_zero_and_one_and_inside_its_interval(seed: int, ties: bool) -> None:
    predictions, labels = random_set(seed, ties=ties)
    score, interval = Map50.score(predictions, labels), Map50.interval(predictions, labels)
    assert 0 <= score <= 1
    assert interval is None or 0 <= interval[0] <= score <= interval[1] <= 1


@given(seed=seeds)
def test_the_order_of_images_of_detections_and_of_boxes_does_not_matter(seed: int) -> None:
    predictions, labels = random_set(seed)
    rng = np.random.default_rng(seed)
    images = rng.permutation(len(labels))
    shuffled = predictions[images][:, rng.permutation(predictions.shape[1])]
    assert Map50.score(shuffled, labels[images]) == pytest.approx(Map50.score(predictions, labels), abs=1e-12)


@given(seed=seeds)
def test_only_the_order_of_the_scores_matters(seed: int) -> None:
    predictions, labels = random_set(seed)
    squared = predictions.copy()
    squared[..., 4] = np.where(predictions[..., 5] < 0, -1, predictions[..., 4] ** 2)
    assert Map50.score(squared, labels) == Map50.score(predictions, labels)


@given(seed=seeds, score=st.floats(0, 1, width=32), image=st.integers(0, 7), class_=st.integers(0, 2))
def test_a_false_detection_more_never_raises_it(seed: int, score: float, image: int, class_: int) -> None:
    predictions, labels = random_set(seed)
    before = Map50.score(predictions, labels)
    assert Map50.score(with_false_one(predictions, score, image, class_), labels) <= before
    assert Map50.score(with_false_one(predictions, 0.0, image, class_), labels) == before  # the last changes nothing


@given(seed=seeds, image=st.integers(0, 7))
def test_a_box_that_nobody_found_never_raises_it(seed: int, image: int) -> None:
    predictions, labels = random_set(seed)
    missed = np.full((len(labels), 1, 5), -1, np.float32)
    missed[image] = (100, 100, 104, 104, np.abs(labels[..., 4]).max())
    if (labels[..., 4] == missed[image, 0, 4]).any():
        more = np.concatenate([labels, missed], axis=1)
        assert Map50.score(predictions, more) <= Map50.score(predictions, labels)


@given(seed=seeds)
def test_counting_an_image_several_times_equals_having_it_several_times(seed: int) -> None:
    predictions, labels = random_set(seed)
    times = np.random.default_rng(seed).integers(0, 4, len(labels))
    found, truth = table_of(predictions), truth_of(labels)
    rankings = rank_by_class(found, find_matches(found, truth), truth, len(labels))
    counted = [value for each in rankings if (value := average_precision(each, times)) is not None]
    literal = Map50.score(np.repeat(predictions, times, axis=0), np.repeat(labels, times, axis=0))
    assert (np.mean(counted) if counted else 0.0) == pytest.approx(literal, abs=1e-12)
