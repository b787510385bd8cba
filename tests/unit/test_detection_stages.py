"""What goes from stage to stage: proposals from anchors, detections from what the box head said."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from trainmark.train.torch.detection.heads import DetectorSettings
from trainmark.train.torch.detection.proposals import Regions, detect, propose

IMAGE = (64, 96)
SETTINGS = DetectorSettings(
    anchor_scale=8.0,
    proposals_before_nms=10,
    proposals_after_nms=10,
    eval_proposals_before_nms=10,
    eval_proposals_after_nms=10,
    proposal_overlap=0.7,
    sampled_anchors=16,
    sampled_regions=16,
    detections=5,
    score_threshold=0.05,
    detection_overlap=0.5,
)


def square(y: float, x: float, side: float = 10.0) -> list[float]:
    return [y, x, y + side, x + side]


def proposals_of(
    anchors: list[list[list[float]]], objectness: list[list[float]], deltas: Any = None, **limits: Any
) -> tuple[list[list[float]], list[bool]]:
    """One image's proposals from anchors and objectness, level by level."""
    found = propose(
        [torch.tensor(level) for level in anchors],
        [torch.tensor([level]) for level in objectness],
        [torch.zeros(1, len(level), 4) for level in anchors] if deltas is None else deltas,
        IMAGE,
        **{"before_nms": 10, "after_nms": 10, "max_overlap": 0.7, **limits},
    )
    return found.boxes[0].tolist(), found.is_valid[0].tolist()


def valid(found: tuple[list[list[float]], list[bool]]) -> list[list[float]]:
    return [box for box, is_valid in zip(*found, strict=True) if is_valid]


def test_proposals_come_best_first_from_all_levels() -> None:
    found = proposals_of([[square(0, 0), square(20, 20)], [square(40, 40, 20.0)]], [[1.0, 3.0], [2.0]])
    assert valid(found) == [square(20, 20), square(40, 40, 20.0), square(0, 0)]


def test_proposals_are_suppressed_within_their_level_only() -> None:
    found = proposals_of([[square(0, 0), square(0, 1)], [square(0, 1)]], [[3.0, 2.0], [1.0]])
    assert valid(found) == [square(0, 0), square(0, 1)]


def test_so_many_are_taken_of_a_level_and_then_of_an_image() -> None:
    anchors = [[square(0, 0), square(20, 0), square(40, 0)], [square(0, 40), square(20, 40), square(40, 40)]]
    objectness = [[6.0, 5.0, 4.0], [3.0, 2.0, 1.0]]
    assert valid(proposals_of(anchors, objectness, before_nms=2)) == [
        *(square(0, 0), square(20, 0), square(0, 40), square(20, 40)),
    ]
    assert valid(proposals_of(anchors, objectness, before_nms=2, after_nms=3)) == [
        *(square(0, 0), square(20, 0), square(0, 40)),
    ]


def test_proposals_are_moved_by_their_deltas_and_clipped_to_the_image() -> None:
    deltas = [torch.tensor([[[0.5, 0.0, 0.0, math.log(2)]]])]
    # The centre 5 lower, twice as wide; 5 pixels of the left are outside.
    found = valid(proposals_of([[square(0, 0)]], [[0.0]], deltas))
    assert found == [pytest.approx([5.0, 0.0, 15.0, 15.0], abs=1e-4)]


def test_proposals_outside_the_image_or_not_a_number_are_not_valid() -> None:
    deltas = [torch.zeros(1, 3, 4)]
    deltas[0][0, 2, 0] = math.nan
    found = proposals_of([[square(-50, 0), square(10, 10), square(40, 40)]], [[3.0, 2.0, 1.0]], deltas)
    assert valid(found) == [square(10, 10)]


def said(*regions: tuple[list[float], list[float]]) -> tuple[Regions, Tensor]:
    """Proposals of one image with their probabilities of background and two classes."""
    boxes = torch.tensor([[box for box, _ in regions]])
    scores = torch.tensor([probabilities for _, probabilities in regions]).log()
    return Regions(boxes, torch.ones(1, len(regions), dtype=torch.bool)), scores


def detections(regions: Regions, classes: Tensor, deltas: Tensor | None = None) -> list[list[float]]:
    deltas = torch.zeros(*classes.shape, 4) if deltas is None else deltas
    found: list[list[float]] = detect(regions, classes, deltas, IMAGE, SETTINGS)[0].tolist()
    assert len(found) == 5
    return [row for row in found if row[5] >= 0]


def test_detections_come_best_first_with_score_and_class() -> None:
    found = detections(*said((square(0, 0), [0.3, 0.6, 0.1]), (square(30, 30), [0.02, 0.08, 0.9])))
    expected = [
        [*square(30, 30), 0.9, 1.0],
        [*square(0, 0), 0.6, 0.0],
        [*square(0, 0), 0.1, 1.0],
        [*square(30, 30), 0.08, 0.0],
    ]
    assert found == [pytest.approx(row, abs=1e-4) for row in expected]


def test_scores_up_to_the_threshold_are_no_detections_and_rows_are_padded() -> None:
    regions, classes = said((square(0, 0), [0.92, 0.04, 0.04]))
    assert detections(regions, classes) == []
    padded = detect(regions, classes, torch.zeros(1, 3, 4), IMAGE, SETTINGS)
    assert padded.tolist() == [[[-1.0] * 6] * 5]


def test_of_overlapping_detections_of_a_class_the_best_stays_and_classes_do_not_see_each_other() -> None:
    # Shifted by 2 of 10: 80 of 120 shared.
    found = detections(*said((square(0, 0), [0.02, 0.9, 0.08]), (square(0, 2), [0.0, 0.2, 0.8])))
    assert [(row[1], round(row[4], 2), row[5]) for row in found] == [(0, 0.9, 0), (2, 0.8, 1)]


def test_each_class_has_its_own_box() -> None:
    regions, classes = said((square(20, 20), [0.0, 0.6, 0.4]))
    deltas = torch.zeros(1, 3, 4)
    deltas[0, 2] = torch.tensor([10.0, 0.0, 0.0, 0.0])  # 10 / 10 of the height
    found = detections(regions, classes, deltas)
    assert [row[:4] for row in found] == [pytest.approx(square(20, 20)), pytest.approx(square(30, 20))]


def test_no_more_than_the_wanted_detections_come_back() -> None:
    places = [(square(y, x), [0.1, 0.8, 0.1]) for y in (0, 20, 40) for x in (0, 20, 40)]
    assert len(detections(*said(*places))) == 5


def test_images_without_a_valid_proposal_have_no_detections() -> None:
    regions = Regions(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    regions.boxes[1, 1] = torch.tensor(square(5, 5))
    regions.is_valid[1, 1] = True
    found = detect(regions, torch.tensor([[0.0, 9.0, 0.0]]), torch.zeros(1, 3, 4), IMAGE, SETTINGS)
    assert (found[0] == -1).all()
    assert found[1, 0, :4].tolist() == pytest.approx(square(5, 5))
    nothing = Regions(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool))
    assert (detect(nothing, torch.zeros(0, 3), torch.zeros(0, 3, 4), IMAGE, SETTINGS) == -1).all()
