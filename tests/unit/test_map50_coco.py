"""Mean average precision equals that of COCO's own evaluation."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest

from tests.unit.written_detections import Array, labels_of, predictions_of, random_set, strip, true_strip
from trainmark.workloads.quality.map50 import Map50

pytest.importorskip("pycocotools", reason="pycocotools is not installed: pip install 'trainmark[dev]'")


def coco_boxes(rows: Array) -> list[dict[str, Any]]:
    """The boxes as COCO writes them: x, y, width, height, with image and class."""
    return [
        {
            "image_id": image + 1,
            "category_id": int(row[-1]) + 1,
            "bbox": [row[1], row[0], row[3] - row[1], row[2] - row[0]],
            "area": (row[3] - row[1]) * (row[2] - row[0]),
        }
        for image, rows_of_image in enumerate(rows.astype(np.float64).tolist())
        for row in rows_of_image
        if row[-1] >= 0
    ]


def coco_map50(predictions: Array, labels: Array, classes: int) -> float:
    """COCOeval at IoU 0.5, all areas, at most 100 detections; −1 marks classes without ground truth."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    scores = predictions[predictions[..., 5] >= 0][:, 4].astype(np.float64).tolist()
    found = [{**box, "score": score} for box, score in zip(coco_boxes(predictions), scores, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": image + 1} for image in range(len(labels))],
            "categories": [{"id": class_ + 1} for class_ in range(classes)],
            "annotations": [{**box, "id": n + 1, "iscrowd": 0} for n, box in enumerate(coco_boxes(labels))],
        }
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluation.params.iouThrs = np.array([0.5])
        evaluation.params.areaRng = [[0, 1e10]]
        evaluation.params.areaRngLbl = ["all"]
        evaluation.params.maxDets = [100]
        evaluation.evaluate()
        evaluation.accumulate()
    precision = evaluation.eval["precision"]
    return float(precision[precision > -1].mean())


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_it_equals_cocos_on_random_sets(seed: int, ties: bool) -> None:
    predictions, labels = random_set(seed, num_images=25, num_detections=20, num_truths=7, classes=4, ties=ties)
    expected = coco_map50(predictions, labels, classes=5)  # the fifth has no ground truth
    assert 0.05 < expected < 0.95
    assert Map50.score(predictions, labels) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("classes", [1, 2])
def test_it_equals_cocos_with_more_detections_than_count(classes: int) -> None:
    predictions, labels = random_set(3, num_images=6, num_detections=260, num_truths=15, classes=classes, ties=True)
    assert Map50.score(predictions, labels) == pytest.approx(coco_map50(predictions, labels, classes), abs=1e-9)


def test_it_equals_cocos_where_a_recall_is_a_level() -> None:
    # One box in each of 10 images: 7 are found, then 7 detections are false, then one is true. In floats 7 / 10 is less
    # than the level 0.70, so levels 0 … 0.69 have precision 1, and levels 0.70 … 0.80 have 8 / 15.
    true, false, late = [strip(0, 4, 0.9)], [strip(40, 44, 0.5)], [strip(0, 4, 0.1)]
    predictions = predictions_of(*[true] * 7, [*false * 7, *late], [], [], most=8)
    labels = labels_of(*[[true_strip(0, 4)]] * 10)
    expected = (70 + 11 * 8 / 15) / 101
    assert coco_map50(predictions, labels, 1) == pytest.approx(expected, abs=1e-9)
    assert Map50.score(predictions, labels) == pytest.approx(expected, abs=1e-9)


def test_it_equals_cocos_where_two_boxes_fit_equally_well() -> None:
    # [1, 11] shares 9/11 with both boxes and takes the later one; [4, 14] shares 8/12 with that, 6/14 with the other.
    predictions = predictions_of([strip(1, 11, 0.9), strip(4, 14, 0.8)])
    boxes = [true_strip(0, 10), true_strip(2, 12)]
    for order, expected in ((boxes, 51 / 101), (boxes[::-1], 1.0)):
        assert coco_map50(predictions, labels_of(order), 1) == pytest.approx(expected, abs=1e-9)
        assert Map50.score(predictions, labels_of(order)) == pytest.approx(expected, abs=1e-9)
