"""Every quality: right predictions score one, and members are combined sample by sample, in any order."""

from typing import Any

import numpy as np
import pytest

from tests.unit.written_detections import labels_of, predictions_of, random_set, strip, true_strip
from trainmark.spec.registries import QUALITIES

Array = np.ndarray[Any, Any]

BOXES = labels_of([true_strip(0, 4), true_strip(10, 14, 1)], [true_strip(0, 4)], [])
FOUND = predictions_of([strip(0, 4, 0.9), strip(10, 14, 0.5, 1)], [strip(0, 4, 0.75)], [])
CLASSES = np.arange(12) % 3
MANY = np.arange(12) % 9

# Right predictions with their labels, and three members' with theirs.
RIGHT: dict[str, tuple[Array, Array]] = {
    "map50": (FOUND, BOXES),
    "map50-nms": (FOUND, BOXES),
    "top1": (np.eye(3, dtype=np.float32)[CLASSES], CLASSES),
    "top5": (np.eye(9, dtype=np.float32)[MANY], MANY),
}
MEMBERS: dict[str, tuple[list[Array], Array]] = {
    "map50": (np.split(random_set(4, num_detections=18)[0], 3, axis=1), random_set(4)[1]),
    "map50-nms": (np.split(random_set(4, num_detections=18)[0], 3, axis=1), random_set(4)[1]),
    "top1": ([np.random.default_rng(seed).random((12, 3), np.float32) for seed in range(3)], CLASSES),
    "top5": ([np.random.default_rng(seed).random((12, 9), np.float32) for seed in range(3)], MANY),
}


@pytest.fixture(params=list(QUALITIES))
def name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    assert name in RIGHT.keys() & MEMBERS.keys(), f"add predictions of '{name}' to RIGHT and MEMBERS"
    return name


def test_right_predictions_score_one_also_if_members_agree_on_them(name: str) -> None:
    quality = QUALITIES.load(name)
    predictions, labels = RIGHT[name]
    assert quality.score(predictions, labels) == 1
    assert quality.score(quality.combine([predictions]), labels) == 1
    assert quality.score(quality.combine([predictions] * 3), labels) == 1


def test_its_interval_holds_the_score_and_is_the_same_each_time(name: str) -> None:
    quality = QUALITIES.load(name)
    (predictions, *_), labels = MEMBERS[name]
    low, high = quality.interval(predictions, labels)
    assert 0 <= low < quality.score(predictions, labels) < high <= 1
    assert quality.interval(predictions, labels) == (low, high)


def test_samples_are_combined_each_for_itself(name: str) -> None:
    combine = QUALITIES.load(name).combine
    members, labels = MEMBERS[name]
    some = np.arange(len(labels))[::3]
    assert np.allclose(combine([member[some] for member in members]), combine(members)[some], rtol=0, atol=1e-6)


def test_the_order_of_the_members_does_not_matter(name: str) -> None:
    combine = QUALITIES.load(name).combine
    members, _ = MEMBERS[name]
    assert np.allclose(combine(members[::-1]), combine(members), rtol=0, atol=1e-6)
