"""Matching and sampling: which candidates count as objects, which as background, and how many of each are drawn."""

import torch
from torch import Tensor

from trainmark.train.torch.detection.boxes import Targets, read_targets
from trainmark.train.torch.detection.sampling import Matches, draw, match_anchors, match_regions, pick


def strips(*lengths: tuple[float, float]) -> Tensor:
    """Boxes of height 1 from one x to another: their overlaps are those of lengths."""
    return torch.tensor([[0.0, start, 1.0, stop] for start, stop in lengths])


def targets_of(*images: list[tuple[float, float, int]]) -> Targets:
    rows = max(len(image) for image in images)
    written = torch.full((len(images), rows, 5), -1.0)
    for place, image in enumerate(images):
        for row, (start, stop, class_) in enumerate(image):
            written[place, row] = torch.tensor([0.0, start, 1.0, stop, class_])
    return read_targets(written)


def test_rows_of_padding_and_boxes_without_area_are_not_present() -> None:
    rows = [[0, 0, 5, 5, 2], [3, 3, 3, 9, 1], [-1, -1, -1, -1, -1], [0, 0, 9, 9, -1]]
    read = read_targets(torch.tensor([rows], dtype=torch.float32))
    assert read.present.tolist() == [[True, False, False, False]]
    assert read.classes[0, 0].item() == 2


def test_targets_without_any_row_are_one_of_padding() -> None:
    read = read_targets(torch.zeros(2, 0, 5))
    assert read.present.tolist() == [[False], [False]]


def test_anchors_are_objects_from_seven_tenths_and_background_below_three_tenths() -> None:
    # A box of length 10; overlaps 0.9, 0.7, 0.6, 0.3, 0.2, 0.
    anchors = strips((0, 9), (0, 7), (0, 6), (0, 3), (0, 2), (20, 30))
    matches = match_anchors(anchors, targets_of([(0, 10, 0)]))
    assert matches.is_object.tolist() == [[True, True, False, False, False, False]]
    assert matches.is_background.tolist() == [[False, False, False, False, True, True]]


def test_the_best_anchors_of_a_box_are_objects_however_small_the_overlap() -> None:
    anchors = strips((0, 2), (8, 10), (0, 1), (50, 60))
    matches = match_anchors(anchors, targets_of([(0, 10, 0)]))
    assert matches.is_object.tolist() == [[True, True, False, False]]  # 0.2 both
    assert matches.is_background.tolist() == [[False, False, True, True]]


def test_a_box_that_no_anchor_touches_makes_no_object() -> None:
    matches = match_anchors(strips((0, 2), (4, 5)), targets_of([(80, 90, 0)]))
    assert not matches.is_object.any()
    assert matches.is_background.all()


def test_an_anchor_stands_for_the_box_that_it_overlaps_most() -> None:
    matches = match_anchors(strips((0, 10), (20, 30)), targets_of([(20, 29, 0), (0, 9, 0)]))
    assert matches.nearest.tolist() == [[1, 0]]


def test_an_image_without_boxes_is_all_background() -> None:
    matches = match_anchors(strips((0, 10), (20, 30)), targets_of([(0, 10, 0)], []))
    assert matches.is_background.tolist() == [[False, True], [True, True]]
    assert not matches.is_object[1].any()


def test_regions_are_objects_from_one_half_on_and_invalid_ones_nothing() -> None:
    regions = strips((0, 5), (0, 4.9), (0, 9), (40, 50))[None]
    is_valid = torch.tensor([[True, True, False, True]])
    matches = match_regions(regions, is_valid, targets_of([(0, 10, 0)]))
    assert matches.is_object.tolist() == [[True, False, False, False]]
    assert matches.is_background.tolist() == [[False, True, False, True]]


def matches_of(is_object: Tensor, is_background: Tensor) -> Matches:
    return Matches(torch.zeros_like(is_object, dtype=torch.long), is_object, is_background)


def test_background_fills_up_what_objects_leave() -> None:
    is_object = torch.zeros(2, 100, dtype=torch.bool)
    is_object[0, :30] = True
    is_object[1, :3] = True
    sample = draw(matches_of(is_object, ~is_object), 16, 4)
    assert sample.is_object.sum(dim=1).tolist() == [4, 3]
    assert sample.is_drawn.sum(dim=1).tolist() == [16, 16]
    for image in range(2):
        places = sample.places[image][sample.is_drawn[image]]
        assert len(places.unique()) == 16
        assert torch.equal(is_object[image, places], sample.is_object[image][sample.is_drawn[image]])


def test_fewer_are_drawn_where_there_are_fewer() -> None:
    is_object = torch.tensor([[True, False, False, False]])
    is_background = torch.tensor([[False, False, True, False]])
    sample = draw(matches_of(is_object, is_background), 16, 4)
    assert sorted(sample.places[sample.is_drawn].tolist()) == [0, 2]
    nothing = torch.zeros(1, 4, dtype=torch.bool)
    assert not draw(matches_of(nothing, nothing), 16, 4).is_drawn.any()


def test_every_candidate_is_drawn_as_often_and_the_seed_decides() -> None:
    background = torch.ones(4000, 8, dtype=torch.bool)
    nothing = torch.zeros_like(background)
    torch.manual_seed(1)
    sample = draw(matches_of(nothing, background), 2, 1)
    counts = torch.bincount(sample.places[sample.is_drawn], minlength=8)
    # 4000 × 2 of 8: 1000 each, with a deviation of √(4000 · ¼ · ¾) = 27.
    assert (counts - 1000).abs().max().item() < 5 * 27
    torch.manual_seed(1)
    assert torch.equal(draw(matches_of(nothing, background), 2, 1).places, sample.places)


def test_picking_takes_rows_image_by_image() -> None:
    values = torch.tensor([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]])
    assert pick(values, torch.tensor([[2, 0], [1, 1]])).tolist() == [[[5, 6], [1, 2]], [[9, 10], [9, 10]]]
    assert pick(values[..., 0], torch.tensor([[1], [0]])).tolist() == [[3], [7]]
