"""Which held-out samples are predicted: as many of each class as there are, the same ones in every run."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.data.held_out import evaluated_samples


def test_without_a_limit_or_with_a_large_one_all_samples_are_predicted() -> None:
    labels = np.array([0, 1, 1])
    for limit in (None, 3, 10):
        assert evaluated_samples(labels, limit).tolist() == [0, 1, 2]
    assert evaluated_samples(labels, 0).tolist() == []


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), limit=st.integers(0, 60))
@settings(max_examples=80, deadline=None)
def test_classes_are_balanced_as_far_as_they_have_samples(labels: list[int], limit: int) -> None:
    classes = np.array(labels)
    chosen = evaluated_samples(classes, limit)
    assert len(chosen) == len(set(chosen.tolist())) == min(limit, len(labels))
    assert chosen.tolist() == sorted(chosen.tolist())
    taken, there = (np.bincount(each, minlength=5) for each in (classes[chosen], classes))
    most = taken.max(initial=0)
    # Only a class that has no more samples has fewer than one below the most.
    assert all(taken[each] >= most - 1 or taken[each] == there[each] for each in range(5))


def test_a_smaller_choice_is_part_of_a_larger_one_and_none_is_of_the_first_samples_alone() -> None:
    labels = np.repeat(np.arange(10), 20)
    choices = [set(evaluated_samples(labels, limit).tolist()) for limit in (10, 25, 150)]
    assert choices[0] < choices[1] < choices[2]
    assert [len(choice) for choice in choices] == [10, 25, 150]
    assert any(index % 20 for index in choices[0])
    assert set(evaluated_samples(labels, 10).tolist()) == choices[0]


def test_labels_that_are_no_classes_are_not_balanced() -> None:
    boxes = np.zeros((30, 4, 5), np.float32)
    assert len(set(evaluated_samples(boxes, 7).tolist())) == 7
