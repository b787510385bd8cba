"""Every batching strategy, with any shapes, any number of workers: no sample is lost, budgets hold, seeds decide."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainmark.data.batching import Grouping, Step, group
from trainmark.spec.registries import BATCHINGS

NAMES = list(BATCHINGS)
Shapes = NDArray[np.int64]

sides = st.integers(1, 3000)
shape_lists = st.lists(st.tuples(sides, sides), min_size=1, max_size=120)
layouts = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))  # replicas, passes, batch size


def wanted(shapes: Shapes, layout: tuple[int, int, int], seed: int = 1, budget: int = 10**6) -> Grouping:
    replicas, passes, batch_size = layout
    return Grouping(shapes, batch_size, passes, replicas, 32, budget, np.random.default_rng(seed))


def positions(steps: list[Step]) -> list[int]:
    return [place for step in steps for replica in step for each in replica for place in each.tolist()]


def padded(shapes: Shapes, steps: list[Step]) -> int:
    """Pixels that are computed, padding included."""
    batches = [each for step in steps for replica in step for each in replica]
    return sum(len(each) * int(shapes[each].max(axis=0).prod()) for each in batches)


@pytest.mark.parametrize("name", NAMES)
@given(shapes=shape_lists, layout=layouts, seed=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_every_sample_is_in_one_pass_of_one_worker(
    name: str, shapes: list[tuple[int, int]], layout: tuple[int, int, int], seed: int
) -> None:
    steps = group(name, wanted(np.array(shapes), layout, seed))
    assert sorted(positions(steps)) == list(range(len(shapes)))
    assert all(len(step) == layout[0] for step in steps)
    assert all(len(each) for step in steps for replica in step for each in replica)


@pytest.mark.parametrize("name", NAMES)
@given(shapes=shape_lists, layout=layouts)
@settings(max_examples=40, deadline=None)
def test_the_order_is_a_function_of_the_seed_and_the_number_of_steps_of_the_shapes(
    name: str, shapes: list[tuple[int, int]], layout: tuple[int, int, int]
) -> None:
    of_epoch = np.array(shapes)
    once, again = (positions(group(name, wanted(of_epoch, layout, seed=5))) for _ in range(2))
    assert once == again
    other_order = np.random.default_rng(2).permutation(len(shapes))
    steps, others = (group(name, wanted(each, layout)) for each in (of_epoch, of_epoch[other_order]))
    assert len(steps) == len(others)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("pixels", "singles")])
@given(shapes=shape_lists, layout=layouts)
@settings(max_examples=40, deadline=None)
def test_all_steps_but_one_are_full_and_no_pass_is_larger_than_a_batch(
    name: str, shapes: list[tuple[int, int]], layout: tuple[int, int, int]
) -> None:
    replicas, passes, batch_size = layout
    steps = group(name, wanted(np.array(shapes), layout))
    sizes = Counter(sum(len(each) for replica in step for each in replica) for step in steps)
    whole, rest = divmod(len(shapes), replicas * passes * batch_size)
    assert sizes == Counter({replicas * passes * batch_size: whole, **({rest: 1} if rest else {})})
    assert all(len(each) <= batch_size for step in steps for replica in step for each in replica)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pixels"])
@given(shapes=shape_lists, batch_size=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_the_samples_of_a_step_do_not_depend_on_how_many_workers_share_it(
    name: str, shapes: list[tuple[int, int]], batch_size: int
) -> None:
    of_epoch = np.array(shapes)
    per_layout = []
    for layout in ((1, 1, 4 * batch_size), (2, 1, 2 * batch_size), (2, 2, batch_size), (4, 1, batch_size)):
        steps = group(name, wanted(of_epoch, layout))
        per_layout.append([sorted(positions([step])) for step in steps])
    assert all(each == per_layout[0] for each in per_layout)


@given(shapes=shape_lists, layout=layouts, budget=st.integers(1, 10**7))
@settings(max_examples=60, deadline=None)
def test_a_pass_has_no_more_pixels_than_its_budget_unless_it_is_one_image(
    shapes: list[tuple[int, int]], layout: tuple[int, int, int], budget: int
) -> None:
    of_epoch = np.array(shapes)
    for step in group("pixels", wanted(of_epoch, layout, budget=budget)):
        for each in (each for replica in step for each in replica):
            assert len(each) == 1 or len(each) * of_epoch[each].max(axis=0).prod() <= budget


def test_single_images_have_no_padding_and_a_batch_is_accumulated() -> None:
    shapes = np.array([(10, 20), (20, 10), (5, 5), (7, 9), (1, 1)])
    (first, last) = group("singles", wanted(shapes, (1, 1, 4)))
    assert [[each.tolist() for each in replica] for replica in first] == [[[0], [1], [2], [3]]]
    assert [[each.tolist() for each in replica] for replica in last] == [[[4]]]


def test_portraits_and_landscapes_are_kept_apart_by_all_that_look_at_shapes() -> None:
    shapes = np.array([(400, 100), (100, 400)] * 16)
    for name in ("aspect", "size", "nearest", "pixels"):
        steps = group(name, wanted(shapes, (1, 1, 4), budget=4 * 40_000))
        assert padded(shapes, steps) == 32 * 40_000  # no padding at all
    assert padded(shapes, group("random", wanted(shapes, (1, 1, 4)))) == 32 * 160_000


def test_neighbouring_shapes_are_dealt_to_the_workers_of_one_step() -> None:
    heights = np.arange(1, 65) * 10
    shapes = np.stack([heights, np.full(64, 100)], axis=1)
    for step in group("nearest", wanted(shapes, (4, 1, 4))):
        covered = np.concatenate([each for replica in step for each in replica])
        assert np.ptp(heights[covered]) == 150  # 16 neighbours, 10 apart
        for replica in step:
            assert np.ptp(heights[replica[0]]) == 30  # four neighbours
