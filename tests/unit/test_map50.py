"""Mean average precision at IoU 0.5, on cases whose answer follows by hand."""

import numpy as np
import pytest

from tests.unit.written_detections import labels_of, predictions_of, strip, true_strip
from trainmark.workloads.quality.map50 import Map50

NEAR, MIDDLE, FAR = true_strip(0, 4), true_strip(10, 14), true_strip(20, 24)


def test_detections_that_equal_the_ground_truth_score_one() -> None:
    predictions = predictions_of([strip(0, 4, 0.9), strip(10, 14, 0.2, 1)], [strip(20, 24, 0.5)], [])
    labels = labels_of([NEAR, true_strip(10, 14, 1)], [FAR], [])
    assert Map50.score(predictions, labels) == 1.0


def test_average_precision_is_the_mean_of_the_best_precision_at_101_levels_of_recall() -> None:
    # True, false, true of 2 boxes: precision 1 up to recall ½ (levels 0 … 0.50: 51), then 2/3 (50 levels).
    predictions = predictions_of([strip(0, 4, 0.9), strip(40, 44, 0.8), strip(10, 14, 0.7)])
    expected = (51 + 50 * 2 / 3) / 101
    assert Map50.score(predictions, labels_of([NEAR, MIDDLE])) == pytest.approx(expected, abs=1e-12)


def test_a_later_better_precision_counts_for_lower_recalls() -> None:
    # False, true, true of 2 boxes: precisions 0, 1/2, 2/3; the last is the best at every level.
    predictions = predictions_of([strip(40, 44, 0.9), strip(0, 4, 0.8), strip(10, 14, 0.7)])
    assert Map50.score(predictions, labels_of([NEAR, MIDDLE])) == pytest.approx(2 / 3, abs=1e-12)


def test_levels_of_recall_that_are_not_reached_count_zero() -> None:
    # 1 of 3 boxes: levels 0 … 0.33 are 34.
    assert Map50.score(predictions_of([strip(0, 4, 0.9)]), labels_of([NEAR, MIDDLE, FAR])) == pytest.approx(
        34 / 101, abs=1e-12
    )


def test_a_second_detection_of_the_same_box_is_false() -> None:
    # The better one is true although it fits less; then false, then true: as in the case of 51 and 50 levels.
    predictions = predictions_of([strip(0, 4.5, 0.9), strip(0, 4, 0.8), strip(10, 14, 0.7)])
    expected = (51 + 50 * 2 / 3) / 101
    assert Map50.score(predictions, labels_of([NEAR, MIDDLE])) == pytest.approx(expected, abs=1e-12)


def test_in_a_crowd_a_detection_takes_the_best_box_that_is_free() -> None:
    labels = labels_of([true_strip(0, 10), true_strip(4, 14)])
    first = strip(1, 11, 0.9)  # 9/11 of the first box, 7/13 of the second
    # 8.5/11.5 of the first box, which is taken; 7.5/12.5 = 0.6 of the second.
    assert Map50.score(predictions_of([first, strip(1.5, 11.5, 0.8)]), labels) == 1.0
    # All of the first box, which is taken; 6/14 of the second is too little. Recall stays ½.
    assert Map50.score(predictions_of([first, strip(0, 10, 0.8)]), labels) == pytest.approx(51 / 101, abs=1e-12)


def test_the_best_detection_chooses_its_best_box_even_if_another_then_goes_empty() -> None:
    # [3, 13] shares 7/13 with the first box and 9/11 with the second, and takes the second; [5, 15], which shares 9/11
    # with the second and 5/15 with the first, finds nothing.
    labels = labels_of([true_strip(0, 10), true_strip(4, 14)])
    predictions = predictions_of([strip(3, 13, 0.9), strip(5, 15, 0.8)])
    assert Map50.score(predictions, labels) == pytest.approx(51 / 101, abs=1e-12)


def test_an_overlap_of_one_half_is_enough_and_a_little_less_is_not() -> None:
    labels = labels_of([true_strip(0, 3)])
    assert Map50.score(predictions_of([strip(1, 4, 0.9)]), labels) == 1.0  # 2 / 4
    assert Map50.score(predictions_of([strip(1.01, 4.01, 0.9)]), labels) == 0.0  # 1.99 / 4.01


def test_a_class_without_ground_truth_does_not_count_even_if_it_is_predicted() -> None:
    predictions = predictions_of([strip(0, 4, 0.5), strip(0, 4, 0.9, 1), strip(10, 14, 0.8, 2)])
    assert Map50.score(predictions, labels_of([NEAR])) == 1.0


def test_a_class_that_is_never_found_halves_the_mean_of_two() -> None:
    predictions = predictions_of([strip(0, 4, 0.9), strip(10, 14, 0.8)])
    assert Map50.score(predictions, labels_of([NEAR, true_strip(10, 14, 1)])) == 0.5


def test_a_box_of_another_image_is_not_found() -> None:
    assert Map50.score(predictions_of([], [strip(0, 4, 0.9)]), labels_of([NEAR], [])) == 0.0


def test_scores_are_ranked_over_all_images() -> None:
    # The false one of the first image (0.8) stands between the true ones (0.9, 0.7).
    predictions = predictions_of([strip(40, 44, 0.8)], [strip(0, 4, 0.7)], [strip(10, 14, 0.9)])
    expected = (51 + 50 * 2 / 3) / 101
    assert Map50.score(predictions, labels_of([], [NEAR], [MIDDLE])) == pytest.approx(expected, abs=1e-12)


def test_equal_scores_stand_in_the_order_of_the_images() -> None:
    false, true = [strip(40, 44, 0.5)], [strip(0, 4, 0.5)]
    assert Map50.score(predictions_of(false, true), labels_of([], [NEAR])) == 0.5
    assert Map50.score(predictions_of(true, false), labels_of([NEAR], [])) == 1.0


def test_the_hundred_best_of_an_image_and_class_count() -> None:
    false = [strip(40 + place, 44 + place, 0.9) for place in range(100)]
    labels = labels_of([NEAR])
    assert Map50.score(predictions_of([*false, strip(0, 4, 0.1)], most=101), labels) == 0.0
    assert Map50.score(predictions_of([*false[:99], strip(0, 4, 0.1)], most=101), labels) == pytest.approx(1 / 100)


@pytest.mark.parametrize("num_images", [0, 2])
@pytest.mark.parametrize("most", [0, 4])
def test_without_ground_truth_the_score_is_zero_and_has_no_interval(num_images: int, most: int) -> None:
    labels = labels_of(*[[]] * num_images, most=most)
    for predictions in (
        predictions_of(*[[]] * num_images, most=most),
        predictions_of(*[[strip(0, 4, 1)]] * num_images),
    ):
        assert Map50.score(predictions, labels) == 0.0
        assert Map50.interval(predictions, labels) is None


def test_without_detections_the_score_is_zero() -> None:
    assert Map50.score(predictions_of([], []), labels_of([NEAR], [FAR])) == 0.0
    assert Map50.score(predictions_of([], [], most=0), labels_of([NEAR], [FAR])) == 0.0


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("column", range(5))
def test_a_detection_that_is_not_finite_is_none(column: int, broken: float) -> None:
    predictions = predictions_of([strip(0, 4, 0.5), strip(40, 44, 0.9)])
    predictions[0, 1, column] = broken
    assert Map50.score(predictions, labels_of([NEAR])) == 1.0


def test_a_box_without_area_finds_nothing() -> None:
    predictions = predictions_of([strip(2, 2, 0.9), strip(4, 0, 0.8)])
    assert Map50.score(predictions, labels_of([NEAR, true_strip(2, 2)])) == 0.0


def test_the_interval_is_that_of_resampled_images() -> None:
    # Each of 100 images has one box, every second is found: the score is (recall's level + 1) / 101, and the recall
    # of a resample is that of 100 draws of ½: 0.5 ± 1.96 · 0.05.
    images = [[strip(0, 4, 0.9)] if image % 2 else [] for image in range(100)]
    predictions, labels = predictions_of(*images), labels_of(*[[NEAR]] * 100)
    assert Map50.score(predictions, labels) == pytest.approx(51 / 101)
    interval = Map50.interval(predictions, labels)
    assert interval == pytest.approx((41 / 101, 61 / 101), abs=0.035)
    assert interval == Map50.interval(predictions, labels)


def test_resamples_that_all_score_the_same_give_no_interval() -> None:
    images = [[strip(0, 4, score)] for score in np.linspace(0.1, 0.9, 20)]
    assert Map50.interval(predictions_of(*images), labels_of(*[[NEAR]] * 20)) is None
    assert Map50.interval(predictions_of([strip(0, 4, 0.9)]), labels_of([NEAR, FAR])) is None
