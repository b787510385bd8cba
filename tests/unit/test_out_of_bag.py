"""Out-of-bag predictions, combined for all samples at once, equal those combined sample by sample."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.written_detections import random_set
from tests.unit.written_events import written_member, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.metrics.quality import combine_by_sample
from trainmark.workloads.quality.map50 import Map50, Map50Nms
from trainmark.workloads.quality.top1 import Top1

NUM_SAMPLES = 30


def random_members(quality: Any, seed: int, num_members: int) -> list[dict[str, Any]]:
    """Members that each predict about 37 % of the samples, one of them none; their indices are in no order."""
    rng = np.random.default_rng(seed)
    members = []
    for member in range(num_members):
        if quality is Top1:
            predictions = rng.random((NUM_SAMPLES, 4), np.float32)
            labels = np.arange(NUM_SAMPLES) % 4
        else:
            predictions, _ = random_set(member, NUM_SAMPLES, num_detections=6, num_truths=3)
            labels = random_set(0, NUM_SAMPLES, num_detections=6, num_truths=3)[1]
        unseen = rng.permutation(np.flatnonzero(rng.poisson(1.0, NUM_SAMPLES) == 0))[: 0 if member == 2 else None]
        names = ("oob_indices", "oob_predictions", "oob_labels")
        members.append(dict(zip(names, (unseen, predictions[unseen], labels[unseen]), strict=True)))
    return members


def sample_by_sample(quality: Any, members: list[dict[str, Any]]) -> tuple[Any, Any]:
    """The combined predictions and the labels of every sample that a member predicted, one after another."""
    combined, labels = [], []
    for sample in range(NUM_SAMPLES):
        having = [(member, np.flatnonzero(member["oob_indices"] == sample)) for member in members]
        having = [(member, rows) for member, rows in having if len(rows)]
        if having:
            combined.append(quality.combine([member["oob_predictions"][rows] for member, rows in having])[0])
            labels.append(having[0][0]["oob_labels"][having[0][1][0]])
    return np.array(combined), np.array(labels)


@pytest.mark.parametrize("quality", [Top1, Map50, Map50Nms])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), num_members=st.integers(1, 8))
def test_all_samples_at_once_equal_one_sample_after_another(quality: Any, seed: int, num_members: int) -> None:
    members = random_members(quality, seed, num_members)
    expected, labels = sample_by_sample(quality, members)
    indices, predictions = (
        np.concatenate([member[name] for member in members]) for name in ("oob_indices", "oob_predictions")
    )
    combined, rows = combine_by_sample(quality.combine, indices, predictions)
    assert indices[rows].tolist() == sorted(set(indices.tolist()))
    assert np.allclose(combined, expected, rtol=0, atol=1e-12)
    measured = written_run(*(written_member(n, predictions=arrays) for n, arrays in enumerate(members)))
    found = compute_metric("quality_out_of_bag", replace(measured, quality=quality))
    assert found.value == pytest.approx(quality.score(expected, labels), abs=1e-12)
    assert found.ci95 == quality.interval(expected, labels)
    assert found.n == len(labels)


def test_samples_that_every_member_drew_are_unavailable() -> None:
    (nothing,) = random_members(Top1, seed=1, num_members=1)
    nothing = {name: array[:0] for name, array in nothing.items()}
    found = compute_metric("quality_out_of_bag", written_run(written_member(0, predictions=nothing)))
    assert found.reason == "every sample was drawn by every member"
