"""Anchors written out, and the level of the pyramid that a region is read from."""

import math

import pytest
import torch

from trainmark.train.torch.detection.boxes import anchors_of_level, anchors_of_levels
from trainmark.train.torch.detection.roi_align import levels_of

CPU = torch.device("cpu")


def test_anchors_of_a_cell_have_one_area_and_three_shapes() -> None:
    root = math.sqrt(2)
    # Stride 16, side 8: around (8, 8) wide, square and high, 64 square pixels each.
    expected = [
        [8 - 4 / root, 8 - 4 * root, 8 + 4 / root, 8 + 4 * root],
        [4.0, 4.0, 12.0, 12.0],
        [8 - 4 * root, 8 - 4 / root, 8 + 4 * root, 8 + 4 / root],
    ]
    torch.testing.assert_close(anchors_of_level(1, 1, 16, 8.0, CPU), torch.tensor(expected))


def test_anchors_go_row_by_row_with_the_shapes_innermost() -> None:
    squares = anchors_of_level(2, 3, 4, 2.0, CPU)[1::3]
    centres = ((squares[:, :2] + squares[:, 2:]) / 2).tolist()
    assert centres == [[2, 2], [2, 6], [2, 10], [6, 2], [6, 6], [6, 10]]


def test_anchors_grow_with_the_stride_of_their_level() -> None:
    levels = anchors_of_levels([(4, 6), (2, 3)], (4, 8), 8.0, CPU)
    assert [len(level) for level in levels] == [72, 18]
    assert [level[1].tolist() for level in levels] == [[-14.0, -14.0, 18.0, 18.0], [-28.0, -28.0, 36.0, 36.0]]


@pytest.mark.parametrize(
    ("side", "level"),
    # Lin et al. 2017: 224 pixels at stride 16, a level finer for each half; clamped to strides 4 and 32.
    [(1.0, 0), (56.0, 0), (111.9, 0), (112.0, 1), (223.9, 1), (224.0, 2), (447.9, 2), (448.0, 3), (1152.0, 3)],
)
def test_a_regions_level_follows_its_size(side: float, level: int) -> None:
    box = torch.tensor([[10.0, 10.0, 10.0 + side, 10.0 + side]])
    assert levels_of(box, 4, 8.0, 4).tolist() == [level]


def test_levels_follow_the_scale_of_the_anchors() -> None:
    box = torch.tensor([[0.0, 0.0, 56.0, 56.0]])
    assert levels_of(box, 4, 8.0, 4).tolist() == [0]
    assert levels_of(box, 4, 4.0, 4).tolist() == [1]


def test_a_long_region_goes_by_its_area() -> None:
    assert levels_of(torch.tensor([[0.0, 0.0, 56.0, 224.0]]), 4, 8.0, 4).tolist() == [1]  # like 112 × 112
