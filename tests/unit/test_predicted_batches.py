"""Batches of predictions and of timed inference: of one shape or nearly so, with no more pixels than training has."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.test_replica_epochs import config_of
from trainmark.data.epochs import largest_pass_px, replica_epoch
from trainmark.data.source import alike
from trainmark.spec.registries import BATCHINGS
from trainmark.train.engine import Data
from trainmark.train.inference import rows_to_time

sides = st.integers(1, 60)
shape_lists = st.lists(st.tuples(sides, sides), min_size=1, max_size=40)


def source_of(shapes: Any) -> Any:
    return SimpleNamespace(split=SimpleNamespace(shapes=None if shapes is None else np.array(shapes)))


def data_of(shapes: Any, largest_pass_px: int | None, counts: Any = None) -> Data:
    found = np.array(shapes)
    drawn = np.ones(len(found), np.uint8) if counts is None else np.array(counts, np.uint8)
    return Data(drawn, (3, 1, 1), source_of(found), None, found, largest_pass_px)


def test_samples_of_one_shape_are_predicted_in_their_order() -> None:
    batches = alike(source_of(None), np.arange(5), batch_size=2, most_px=None)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_images_of_the_same_shape_share_a_batch_wherever_they_are() -> None:
    batches = alike(source_of([(2, 3), (3, 2), (2, 3), (2, 3)]), np.array([3, 1, 0, 2]), batch_size=2, most_px=99)
    assert [batch.tolist() for batch in batches] == [[0, 2], [3], [1]]  # places in what is asked for


def test_a_batch_has_no_more_pixels_than_the_largest_pass_of_training() -> None:
    shapes = [(100, 100)] * 10 + [(10, 10)] * 10
    batches = alike(source_of(shapes), np.arange(20), batch_size=8, most_px=29_999)
    assert [len(batch) for batch in batches] == [8, 2] + [2] * 5  # two of 10,000 pixels, 8 at most of 100
    alone = alike(source_of([(4000, 4000), (1, 1)]), np.arange(2), batch_size=8, most_px=1)
    assert sorted(batch.tolist() for batch in alone) == [[0], [1]]  # an image above it is alone


@given(shapes=shape_lists, batch_size=st.integers(1, 9), most_px=st.integers(1, 5000))
@settings(max_examples=60, deadline=None)
def test_every_image_is_predicted_once_unpadded_and_within_the_budget(
    shapes: list[tuple[int, int]], batch_size: int, most_px: int
) -> None:
    found = np.array(shapes)
    batches = alike(source_of(found), np.arange(len(found)), batch_size, most_px)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(found)))
    for batch in batches:
        assert len({tuple(shape) for shape in found[batch].tolist()}) == 1
        assert len(batch) == 1 or (len(batch) <= batch_size and int(found[batch].prod(axis=1).sum()) <= most_px)


@pytest.mark.parametrize("batching", list(BATCHINGS))
def test_the_largest_pass_is_that_of_the_steps_that_are_trained(batching: str) -> None:
    shapes = np.random.default_rng(3).integers(5, 50, (40, 2))
    counts = np.full(40, 1, np.uint8)
    whole = config_of(batching, workers=2)
    for steps in (2, 1000):
        chosen = whole.model_copy(update={"train": whole.train.model_copy(update={"steps": steps})})
        loads = replica_epoch(chosen, counts, shapes, 0, 0, 0).loads
        assert loads is not None
        passes = loads.passes[loads.passes[:, 0] < steps]
        expected = max(samples * height * width for _, samples, height, width in passes.tolist())
        assert largest_pass_px(chosen, counts, shapes, 0) == expected
    assert largest_pass_px(whole, counts, None, 0) is None


def test_inference_is_timed_on_a_small_a_middling_and_a_large_batch_of_near_shapes() -> None:
    # Six batches of two; the middles of each third by pixels are the 2nd, 4th and 6th.
    shapes = [(10 * size, 10) for size in (6, 1, 5, 2, 4, 3, 6, 1, 5, 2, 4, 3)]
    rows = rows_to_time(data_of(shapes, 10_000), 2)
    assert not isinstance(rows, str)
    assert [{shapes[index] for index in row} for row in rows] == [{(20, 10)}, {(40, 10)}, {(60, 10)}]
    (one, *_) = rows_to_time(data_of(shapes, 10_000, counts=[0] * 11 + [3]), 1)
    assert np.asarray(one).tolist() == [11]  # only drawn samples are staged


def test_inference_makes_no_larger_pass_than_training() -> None:
    shapes = [(100, 100)] * 8
    assert not isinstance(rows_to_time(data_of(shapes, 40_000), 4), str)
    assert rows_to_time(data_of(shapes, 39_999), 4) == (
        "a batch of 4 images has 0.04 MP, but the largest pass of training 0.04 MP; choose a smaller "
        "measure.inference_batch_size"
    )
    few = rows_to_time(data_of(shapes[:2], 40_000), 4)  # fewer images than a batch: they are repeated
    assert [np.asarray(row).tolist() for row in few] == [[0, 1, 0, 1]] * 3
