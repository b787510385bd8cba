"""Box arithmetic: overlaps, clipping, and differences from a reference box and back."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainmark.train.torch.detection.boxes import (
    FROM_ANCHOR,
    FROM_REGION,
    area,
    clip,
    decode,
    encode,
    have_area,
    overlap,
)

SIDE = st.integers(0, 30)
BOX = (
    st.tuples(SIDE, SIDE, SIDE, SIDE)
    .map(lambda b: (*sorted(b[::2]), *sorted(b[1::2])))
    .map(lambda b: (b[0], b[2], b[1], b[3]))
)


def naive_overlap(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    """Intersection over union by counting unit squares."""
    first, second = (np.zeros((30, 30), dtype=bool) for _ in range(2))
    first[a[0] : a[2], a[1] : a[3]] = True
    second[b[0] : b[2], b[1] : b[3]] = True
    union = np.count_nonzero(first | second)
    return float(np.count_nonzero(first & second) / union) if union else 0.0


def test_overlap_is_intersection_over_union() -> None:
    first = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 4.0, 5.0]])
    second = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 5.0, 10.0, 15.0], [20.0, 20.0, 30.0, 30.0]])
    # 50 shared of 150; 20 of 100; the 4 × 5 box only touches the second.
    expected = torch.tensor([[1.0, 50 / 150, 0.0], [20 / 100, 0.0, 0.0]])
    torch.testing.assert_close(overlap(first, second), expected)


@given(st.lists(BOX, min_size=1, max_size=6), st.lists(BOX, min_size=1, max_size=6))
def test_overlap_counts_the_shared_squares(first: list[tuple[int, ...]], second: list[tuple[int, ...]]) -> None:
    found = overlap(torch.tensor(first, dtype=torch.float32), torch.tensor(second, dtype=torch.float32))
    expected = np.array([[naive_overlap(a, b) for b in second] for a in first])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_boxes_without_area_overlap_nothing_not_even_themselves() -> None:
    flat = torch.tensor([[5.0, 5.0, 5.0, 9.0], [3.0, 3.0, 3.0, 3.0]])
    assert overlap(flat, flat).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_overlap_works_image_by_image_and_with_boxes_that_all_images_share() -> None:
    boxes = torch.tensor([[[0.0, 0.0, 2.0, 2.0]], [[0.0, 0.0, 1.0, 2.0]]])
    shared = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    assert overlap(shared, boxes).tolist() == [[[1.0]], [[0.5]]]


def test_area_is_height_times_width() -> None:
    assert area(torch.tensor([[1.0, 2.0, 4.0, 7.0]])).tolist() == [15.0]


def test_clipping_keeps_what_lies_inside_the_image() -> None:
    boxes = torch.tensor([[-5.0, -1.0, 3.0, 99.0], [2.0, 3.0, 4.0, 5.0]])
    assert clip(boxes, 64, 96).tolist() == [[0.0, 0.0, 3.0, 96.0], [2.0, 3.0, 4.0, 5.0]]


def test_only_boxes_with_both_sides_are_solid() -> None:
    nan = math.nan
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [2.0, 2.0, 1.0, 3.0], [0.0, 0.0, nan, 1.0]])
    assert have_area(boxes).tolist() == [True, False, False, False]
    assert have_area(boxes, min_side=1.0).tolist() == [False] * 4


def test_a_difference_is_written_in_reference_sizes_and_logarithms() -> None:
    reference = torch.tensor([10.0, 20.0, 30.0, 60.0])  # centre 20, 40; 20 × 40
    box = torch.tensor([20.0, 20.0, 40.0, 100.0])  # centre 30, 60; 20 × 80
    expected = torch.tensor([10 / 20, 20 / 40, math.log(20 / 20), math.log(80 / 40)])
    torch.testing.assert_close(encode(box, reference, FROM_ANCHOR), expected)
    weighted = expected * torch.tensor([10.0, 10.0, 5.0, 5.0])
    torch.testing.assert_close(encode(box, reference, FROM_REGION), weighted)


@pytest.mark.parametrize("weights", [FROM_ANCHOR, FROM_REGION])
def test_decoding_undoes_encoding(weights: tuple[float, float]) -> None:
    random = torch.Generator().manual_seed(3)
    corners = torch.rand(2, 50, 2, generator=random) * 100
    boxes, references = torch.cat([corners, corners + 1 + torch.rand(2, 50, 2, generator=random) * 50], dim=2)
    found = decode(encode(boxes, references, weights), references, weights)
    torch.testing.assert_close(found, boxes, rtol=1e-4, atol=1e-3)


def test_a_huge_difference_gives_a_finite_box() -> None:
    reference = torch.tensor([0.0, 0.0, 16.0, 16.0])
    found = decode(torch.tensor([0.0, 0.0, 500.0, 1e30]), reference, FROM_ANCHOR)
    # 16 × 62.5 = 1000 pixels around the centre 8.
    torch.testing.assert_close(found, torch.tensor([-492.0, -492.0, 508.0, 508.0]), rtol=1e-5, atol=1e-2)
