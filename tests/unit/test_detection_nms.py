"""Non-maximum suppression: written-out cases, a greedy reference in float64, its properties, and torchvision's."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainmark.train.torch.detection import proposals
from trainmark.train.torch.detection.boxes import overlap
from trainmark.train.torch.detection.proposals import surviving

THRESHOLDS = st.sampled_from([0.1, 0.3, 0.5, 0.7])
START, SIZE = st.integers(0, 12), st.integers(1, 8)
BOXES = st.lists(st.tuples(START, START, SIZE, SIZE).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])), max_size=40)


def greedy(boxes: Tensor, max_overlap: float) -> list[bool]:
    """One box after the other, best first: it stays if it overlaps none that has stayed by more."""
    rows = boxes.double().numpy()
    stays: list[bool] = []
    for place, box in enumerate(rows):
        better = rows[:place][np.array(stays, dtype=bool)]
        sides = np.minimum(box[2:], better[:, 2:]) - np.maximum(box[:2], better[:, :2])
        shared = np.prod(np.maximum(sides, 0), axis=1)
        union = np.prod(box[2:] - box[:2]) + np.prod(better[:, 2:] - better[:, :2], axis=1) - shared
        stays.append(not (shared / union > max_overlap).any())
    return stays


def stays_of(boxes: Tensor, max_overlap: float) -> list[bool]:
    found: list[bool] = surviving(boxes[None], torch.ones(1, len(boxes), dtype=torch.bool), max_overlap)[0].tolist()
    return found


def strips(*starts: float) -> Tensor:
    """Boxes 10 long and 1 high."""
    return torch.tensor([[0.0, start, 1.0, start + 10] for start in starts])


def scattered(groups: int, count: int) -> Tensor:
    """Boxes in clusters, so that there are chains of overlaps."""
    random = torch.Generator().manual_seed(7)
    corners = torch.rand(groups, count // 8, 2, generator=random).repeat_interleave(8, dim=1) * 150
    corners = corners + torch.rand(groups, count, 2, generator=random) * 12
    boxes = torch.cat([corners, corners + 15 + torch.rand(groups, count, 2, generator=random) * 15], dim=2)
    return boxes[:, torch.randperm(count, generator=random)]


def test_a_box_that_overlaps_a_better_one_goes() -> None:
    # Shifted by 2 of 10: 8 / 12 shared; by 5: 5 / 15.
    assert stays_of(strips(0, 2, 5), 0.5) == [True, False, True]
    assert stays_of(strips(0, 2, 5), 0.7) == [True, True, True]
    assert stays_of(strips(0, 2, 5), 0.3) == [True, False, False]


def test_a_box_that_went_suppresses_nothing() -> None:
    # Each overlaps the next by 7 / 13, the one after by 4 / 16.
    assert stays_of(strips(0, 3, 6, 9, 12), 0.5) == [True, False, True, False, True]


def test_an_overlap_of_exactly_the_threshold_is_allowed() -> None:
    assert stays_of(torch.tensor([[0.0, 0.0, 1.0, 10.0], [0.0, 0.0, 1.0, 5.0]]), 0.5) == [True, True]


def test_invalid_boxes_neither_stay_nor_suppress() -> None:
    is_valid = torch.tensor([[False, True, True]])
    assert surviving(strips(0, 2, 4)[None], is_valid, 0.5).tolist() == [[False, True, False]]


def test_groups_do_not_see_each_other() -> None:
    boxes = torch.stack([strips(0, 2), strips(0, 50)])
    assert surviving(boxes, torch.ones(2, 2, dtype=torch.bool), 0.5).tolist() == [[True, False], [True, True]]


def test_no_boxes_give_none() -> None:
    assert surviving(torch.zeros(3, 0, 4), torch.zeros(3, 0, dtype=torch.bool), 0.5).shape == (3, 0)


def test_a_box_that_is_not_a_number_harms_no_other() -> None:
    boxes = strips(0, 2, 40)
    boxes[0, 2] = torch.nan
    assert surviving(boxes[None], torch.tensor([[False, True, True]]), 0.5).tolist() == [[False, True, True]]


@settings(max_examples=200)
@given(BOXES, THRESHOLDS)
def test_what_stays_does_not_overlap_and_what_goes_overlaps_a_better_one(rows: list[Any], threshold: float) -> None:
    boxes = torch.tensor(rows, dtype=torch.float32).view(-1, 4)
    stays = torch.tensor(stays_of(boxes, threshold), dtype=torch.bool)
    too_much = overlap(boxes, boxes) > threshold
    kept = too_much[stays][:, stays].fill_diagonal_(False)
    assert not kept.any()
    for place in range(len(boxes)):
        if not stays[place]:
            assert (too_much[place, :place] & stays[:place]).any()


@settings(max_examples=200)
@given(BOXES, THRESHOLDS, st.integers(1, 7))
def test_it_is_the_greedy_choice_whatever_the_block(rows: list[Any], threshold: float, block: int) -> None:
    boxes = torch.tensor(rows, dtype=torch.float32).view(-1, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals, "BLOCK_ON_CPU", block)
        assert stays_of(boxes, threshold) == greedy(boxes, threshold)


def test_it_is_the_greedy_choice_for_many_boxes_in_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = scattered(groups=3, count=600)
    expected = [greedy(group, 0.5) for group in boxes]
    assert 0.1 < np.mean(expected) < 0.9
    monkeypatch.setattr(proposals, "PAIRS_AT_ONCE", 1)  # every group alone
    assert surviving(boxes, torch.ones(3, 600, dtype=torch.bool), 0.5).tolist() == expected


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_it_agrees_with_torchvision(device: str) -> None:
    try:
        from torchvision.ops import nms as reference
    except (ImportError, RuntimeError, AttributeError) as error:
        pytest.skip(f"torchvision does not load: {error}")
    boxes = scattered(groups=1, count=1000).to(device)
    scores = torch.linspace(1, 0, 1000, device=device)
    expected = torch.zeros(1000, dtype=torch.bool, device=device)
    expected[reference(boxes[0], scores, 0.6)] = True
    assert torch.equal(surviving(boxes, torch.ones(1, 1000, dtype=torch.bool, device=device), 0.6)[0], expected)
