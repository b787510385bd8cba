"""The ensembles of detectors: boxes fused by their scores, or the best of overlapping ones kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.written_detections import Array, predictions_of, random_set, strip
from trainmark.workloads.quality.map50 import Map50, Map50Nms

seeds = st.integers(0, 2**32 - 1)
both = pytest.mark.parametrize("quality", [Map50, Map50Nms])


def rows_of(predictions: Array, image: int = 0) -> list[list[float]]:
    """The detections of an image, without filling."""
    return [row for row in predictions[image].tolist() if row[5] >= 0]


def near(*rows: Any) -> Any:
    return [pytest.approx(list(row), abs=1e-6) for row in rows]


def test_two_members_boxes_are_averaged_by_their_scores() -> None:
    # [0, 10] with 0.8 and [2, 12] with 0.4 share 8/12: from (0·0.8 + 2·0.4) / 1.2 = 2/3 to (10·0.8 + 12·0.4) / 1.2 =
    # 32/3, score (0.8 + 0.4) / 2 · 2/2 = 0.6.
    fused = Map50.combine([predictions_of([strip(0, 10, 0.8)]), predictions_of([strip(2, 12, 0.4)])])
    assert rows_of(fused) == near(strip(2 / 3, 32 / 3, 0.6))


def test_a_box_that_one_of_two_members_has_keeps_half_its_score() -> None:
    fused = Map50.combine([predictions_of([strip(0, 10, 0.8)]), predictions_of([])])
    assert rows_of(fused) == near(strip(0, 10, 0.4))


def test_a_cluster_of_more_boxes_than_members_counts_as_if_all_had_found_it() -> None:
    # Three boxes of two members: mean (0.9 + 0.6 + 0.3) / 3 = 0.6, times 2/2.
    fused = Map50.combine([predictions_of([strip(0, 10, 0.9), strip(0, 10, 0.3)]), predictions_of([strip(0, 10, 0.6)])])
    assert rows_of(fused) == near(strip(0, 10, 0.6))


def test_an_overlap_of_the_limit_does_not_fuse_and_a_little_more_does() -> None:
    # [0, 31] and [9, 40] share 22/40 = 0.55; [0, 31] and [8, 39] share 23/39 = 0.59, their mean is [4, 35].
    first = predictions_of([strip(0, 31, 0.5)])
    apart = Map50.combine([first, predictions_of([strip(9, 40, 0.5)])])
    assert rows_of(apart) == near(strip(0, 31, 0.25), strip(9, 40, 0.25))
    assert rows_of(Map50.combine([first, predictions_of([strip(8, 39, 0.5)])])) == near(strip(4, 35, 0.5))


def test_a_box_is_compared_with_the_fused_box_so_far() -> None:
    # [3.75, 13.75] shares 6.25/13.75 = 0.45 with [0, 10], but 7.25/12.75 = 0.57 with [1, 11], the first two's mean.
    members = [predictions_of([strip(start, start + 10, 0.5)]) for start in (0, 2, 3.75)]
    assert rows_of(Map50.combine(members)) == near(strip(5.75 / 3, 35.75 / 3, 0.5))


def test_a_box_joins_the_cluster_that_it_overlaps_most() -> None:
    # [0, 10] and [5, 15] are two clusters; [3, 13] shares 7/13 = 0.54 and 8/12 = 0.67 with them.
    first = predictions_of([strip(0, 10, 0.9), strip(5, 15, 0.8)])
    fused = Map50.combine([first, predictions_of([strip(3, 13, 0.4)])])
    # (5·0.8 + 3·0.4) / 1.2 = 13/3 and (15·0.8 + 13·0.4) / 1.2 = 43/3; 0.6 · 2/2 stands before 0.9 · 1/2.
    assert rows_of(fused) == near(strip(13 / 3, 43 / 3, 0.6), strip(0, 10, 0.45))


def test_boxes_of_score_zero_have_a_mean_too() -> None:
    fused = Map50.combine([predictions_of([strip(0, 10, 0)]), predictions_of([strip(2, 12, 0)])])
    assert rows_of(fused) == near(strip(1, 11, 0))


def test_suppression_keeps_the_best_of_overlapping_boxes_with_its_score() -> None:
    # [2, 12] shares 8/12 with [0, 10] and goes; [4, 14] shares 6/14 with it and stays: what went suppresses nothing.
    first = predictions_of([strip(0, 10, 0.9), strip(4, 14, 0.3)])
    kept = Map50Nms.combine([first, predictions_of([strip(2, 12, 0.6)])])
    assert rows_of(kept) == near(strip(0, 10, 0.9), strip(4, 14, 0.3))


def test_an_overlap_of_one_half_is_not_suppressed_and_a_little_more_is() -> None:
    first = predictions_of([strip(0, 3, 0.9)])
    assert len(rows_of(Map50Nms.combine([first, predictions_of([strip(1, 4, 0.5)])]))) == 2  # 2/4
    assert len(rows_of(Map50Nms.combine([first, predictions_of([strip(0.99, 3.99, 0.5)])]))) == 1  # 2.01/3.99


@both
def test_classes_and_images_are_not_mixed(quality: Any) -> None:
    first = predictions_of([strip(0, 10, 0.8, 0)], [strip(0, 10, 0.8, 2)])
    second = predictions_of([strip(0, 10, 0.4, 1)], [])
    combined = quality.combine([first, second])
    assert [row[5] for row in rows_of(combined, 0)] == [0, 1]
    assert [row[5] for row in rows_of(combined, 1)] == [2]


@both
def test_what_comes_back_is_100_float32_rows_per_image_by_falling_score(quality: Any) -> None:
    apart = [strip(20 * place, 20 * place + 10, (place + 1) / 200) for place in range(150)]
    combined = quality.combine([predictions_of(apart, most=150), predictions_of([], most=2)])
    assert (combined.shape, combined.dtype) == ((1, 100, 6), np.float32)
    assert combined[0, :, 1].tolist() == [20 * place for place in range(149, 49, -1)]
    few = quality.combine([predictions_of(apart[:3]), predictions_of([])])
    assert few[0, 3:].tolist() == [[-1] * 6] * 97


@both
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(("num_images", "most"), [(0, 4), (2, 0), (2, 4)])
def test_members_without_detections_give_none(quality: Any, members: int, num_images: int, most: int) -> None:
    nothing = predictions_of(*[[]] * num_images, most=most)
    combined = quality.combine([nothing] * members)
    assert combined.shape == (num_images, 100, 6)
    assert (combined == -1).all()


@both
@given(seed=seeds)
def test_one_member_alone_comes_back_unchanged(quality: Any, seed: int) -> None:
    predictions, labels = random_set(seed)
    combined = quality.combine([predictions])
    for image in range(len(predictions)):
        assert rows_of(combined, image) == sorted(rows_of(predictions, image), key=lambda row: -row[4])
    assert quality.score(combined, labels) == quality.score(predictions, labels)


def overlap(a: list[float], b: list[float]) -> float:
    """Intersection over union of two boxes, written once more."""
    height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0.0, height) * max(0.0, width)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def fused_one_by_one(rows: list[list[float]], members: int) -> list[list[float]]:
    """The paper's procedure for the boxes of one image and class, box by box."""
    clusters: list[list[list[float]]] = []
    fused: list[list[float]] = []
    for row in sorted(rows, key=lambda row: -row[4]):
        overlaps = [overlap(row, box) for box in fused]
        if overlaps and max(overlaps) > 0.55:
            place = overlaps.index(max(overlaps))
        else:
            place = len(fused)
            clusters.append([])
            fused.append([])
        clusters[place].append(row)
        weights = np.array([each[4] for each in clusters[place]])
        fused[place] = list(weights @ np.array(clusters[place])[:, :4] / weights.sum())
    sizes = [len(cluster) for cluster in clusters]
    scores = [sum(row[4] for row in cluster) / len(cluster) for cluster in clusters]
    return [
        [*box, score * min(members, size) / members, rows[0][5]]
        for box, score, size in zip(fused, scores, sizes, strict=True)
    ]


def kept_one_by_one(rows: list[list[float]], members: int) -> list[list[float]]:
    """Greedy suppression of the boxes of one image and class."""
    kept: list[list[float]] = []
    for row in sorted(rows, key=lambda row: -row[4]):
        if all(overlap(row, better) <= 0.5 for better in kept):
            kept.append(row)
    return kept


@settings(max_examples=25)
@pytest.mark.parametrize(("quality", "one_by_one"), [(Map50, fused_one_by_one), (Map50Nms, kept_one_by_one)])
@given(seed=seeds, num_members=st.integers(2, 4))
def test_the_ensemble_is_that_of_the_procedure_box_by_box(
    quality: Any, one_by_one: Any, seed: int, num_members: int
) -> None:
    pooled, _ = random_set(seed, num_images=5, num_detections=num_members * 10, num_truths=6)
    moves = np.random.default_rng(seed).normal(0, 0.01, pooled[..., :4].shape)  # no two overlaps are equal
    pooled[..., :4] += np.where(pooled[..., 5:] < 0, 0, moves).astype(np.float32)
    combined = quality.combine(np.split(pooled, num_members, axis=1))
    for image in range(len(pooled)):
        rows = rows_of(pooled, image)
        of_classes = [[row for row in rows if row[5] == class_] for class_ in range(3)]
        expected = [row for each in of_classes if each for row in one_by_one(each, num_members)]
        found = rows_of(combined, image)
        assert [row[4] for row in found] == sorted([row[4] for row in found], reverse=True)
        assert np.array(sorted(found)) == pytest.approx(np.array(sorted(expected)), abs=1e-5)


@both
@given(seed=seeds)
def test_the_order_of_the_members_does_not_matter(quality: Any, seed: int) -> None:
    pooled, _ = random_set(seed, num_detections=18)
    members = np.split(pooled, 3, axis=1)
    assert np.allclose(quality.combine(members[::-1]), quality.combine(members), rtol=0, atol=1e-6)


@both
def test_members_that_agree_are_the_ensemble(quality: Any) -> None:
    apart = predictions_of([strip(0, 10, 0.75), strip(40, 50, 0.5, 1)], [strip(0, 10, 0.25)])
    assert quality.combine([apart, apart, apart]) == pytest.approx(quality.combine([apart]), abs=1e-6)


def test_both_qualities_score_the_same() -> None:
    predictions, labels = random_set(1)
    assert Map50Nms.score(predictions, labels) == Map50.score(predictions, labels)
    assert Map50Nms.interval(predictions, labels) == Map50.interval(predictions, labels)
