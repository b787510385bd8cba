"""The detector's losses, written out for a few anchors and regions."""

import math

import pytest
import torch
from torch import Tensor

from trainmark.train.torch.detection.boxes import Targets, read_targets
from trainmark.train.torch.detection.losses import DrawnRegions, anchor_losses
from trainmark.train.torch.detection.proposals import Regions

HERE, THERE, FAR = [0.0, 0.0, 8.0, 8.0], [40.0, 40.0, 48.0, 48.0], [80.0, 80.0, 88.0, 88.0]
ANCHORS = torch.tensor([HERE, THERE])
NOTHING = [-1.0] * 5


def targets_of(*images: list[list[float]]) -> Targets:
    return read_targets(torch.tensor(images))


def regions_of(*images: list[list[float]]) -> Regions:
    boxes = torch.tensor(images)
    return Regions(boxes, torch.ones(boxes.shape[:2], dtype=torch.bool))


def smooth(difference: float) -> float:
    """Smooth L1 beyond β = 1/9."""
    return abs(difference) - 1 / 18


def anchor_loss(objectness: Tensor, deltas: Tensor, targets: Targets, count: int = 16) -> float:
    return anchor_losses(ANCHORS, objectness, deltas, targets, count).item()


def test_an_image_with_one_object_and_one_background_costs_their_mean() -> None:
    targets = targets_of([[*HERE, 0.0]])
    assert anchor_loss(torch.zeros(1, 2), torch.zeros(1, 2, 4), targets) == pytest.approx(math.log(2))
    # Sure and right: ln(1 + e⁻³) each.
    sure = torch.tensor([[3.0, -3.0]])
    assert anchor_loss(sure, torch.zeros(1, 2, 4), targets) == pytest.approx(math.log(1 + math.exp(-3)), rel=1e-5)


def test_only_objects_cost_a_wrong_box() -> None:
    targets = targets_of([[*HERE, 0.0]])
    wrong = torch.tensor([[[1.0, -2.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]]])
    expected = math.log(2) + (smooth(1) + smooth(2)) / 2
    assert anchor_loss(torch.zeros(1, 2), wrong, targets) == pytest.approx(expected)


def test_images_count_alike_however_many_anchors_were_drawn_from_them() -> None:
    # 5 / 8 of the box: neither object nor background beside the best one, so the first image has one anchor less.
    anchors = torch.tensor([HERE, [0.0, 0.0, 8.0, 5.0], THERE])
    targets = targets_of([[*HERE, 0.0]], [NOTHING])
    objectness = torch.tensor([[0.0, 7.0, 0.0], [2.0, 2.0, 2.0]])
    first, second = math.log(2), math.log(1 + math.exp(2))
    found = anchor_losses(anchors, objectness, torch.zeros(2, 3, 4), targets, 16).item()
    assert found == pytest.approx((first + second) / 2, rel=1e-5)


def test_the_boxes_themselves_are_drawn_as_regions() -> None:
    targets = targets_of([[*HERE, 2.0], NOTHING])
    regions = DrawnRegions(regions_of([THERE, FAR]), targets, 16)
    assert sorted(regions.boxes.tolist()) == [HERE, THERE, FAR]
    assert regions.images.tolist() == [0, 0, 0]


def test_a_quarter_of_the_regions_are_objects_at_most() -> None:
    crowd = [HERE] * 50 + [THERE] * 50
    regions = DrawnRegions(regions_of(crowd), targets_of([[*HERE, 0.0]]), 16)
    assert len(regions.boxes) == 16
    assert (regions.boxes == torch.tensor(HERE)).all(dim=1).sum().item() == 4


def test_a_region_costs_its_class_and_the_box_of_its_own_class() -> None:
    targets = targets_of([[*HERE, 1.0]])
    regions = DrawnRegions(regions_of([THERE]), targets, 16)  # background THERE, object HERE of class 1
    is_object = (regions.boxes == torch.tensor(HERE)).all(dim=1)
    classes, deltas = torch.zeros(2, 4), torch.full((2, 4, 4), 9.0)
    deltas[is_object, 2] = torch.tensor([0.5, 0.0, 0.0, 3.0])  # class 1 stands in row 2, after background and class 0
    expected = math.log(4) + (smooth(0.5) + smooth(3)) / 2
    assert regions.losses(classes, deltas).item() == pytest.approx(expected)


def test_a_shifted_region_should_move_to_its_box() -> None:
    shifted = [0.0, 2.0, 8.0, 10.0]  # overlaps HERE by 48 / 80; the centre is 2 of 8 away, times 10
    regions = DrawnRegions(regions_of([shifted]), targets_of([[*HERE, 0.0]]), 4)
    right = torch.zeros(len(regions.boxes), 2, 4)
    is_shifted = (regions.boxes == torch.tensor(shifted)).all(dim=1)
    right[is_shifted, 1] = torch.tensor([0.0, -2.5, 0.0, 0.0])
    sure = torch.tensor([[0.0, 50.0]]).expand(len(right), 2)
    assert regions.losses(sure, right).item() == pytest.approx(0, abs=1e-6)


def test_an_image_without_boxes_or_proposals_costs_nothing_in_the_second_stage() -> None:
    nothing = Regions(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool))
    regions = DrawnRegions(nothing, targets_of([NOTHING]), 16)
    assert len(regions.boxes) == 0
    classes = torch.zeros(0, 5, requires_grad=True)
    loss = regions.losses(classes, torch.zeros(0, 5, 4, requires_grad=True))
    loss.backward()
    assert loss.item() == 0


def test_losses_are_those_of_fp32_for_outputs_in_short_formats() -> None:
    targets = targets_of([[*HERE, 0.0]])
    short = anchor_losses(ANCHORS, torch.zeros(1, 2).half(), torch.zeros(1, 2, 4).half(), targets, 16)
    assert short.dtype == torch.float32
    assert short.item() == pytest.approx(math.log(2))
