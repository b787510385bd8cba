"""RoIAlign: written-out cases, a reference in float64, numeric gradients, and torchvision's."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainmark.train.torch.detection.roi_align import Placed, pool

STRIDES = (4, 8, 16, 32)
IMAGE = (64, 96)


def placed(boxes: list[list[float]], images: list[int] | None = None, levels: list[int] | None = None) -> Placed:
    count = len(boxes)
    return Placed(torch.tensor(boxes), torch.tensor(images or [0] * count), torch.tensor(levels or [0] * count))


def ramp(height: int, width: int) -> Tensor:
    """A level of one image and one channel with 10 · row + column in each cell."""
    rows, columns = torch.arange(height), torch.arange(width)
    return (10 * rows[:, None] + columns).float()[None, None]


def pyramid(dtype: torch.dtype = torch.float64, channels: int = 3) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    sizes = [(IMAGE[0] // stride, IMAGE[1] // stride) for stride in STRIDES]
    return [torch.randn(2, channels, *size, generator=random, dtype=torch.float64).to(dtype) for size in sizes]


def scattered(count: int) -> Placed:
    """Regions of all sizes in both images, some beyond the border."""
    random = torch.Generator().manual_seed(2)
    corners = torch.rand(count, 2, generator=random) * torch.tensor([80.0, 110.0]) - 12
    sizes = torch.rand(count, 2, generator=random) * 50
    images, levels = (torch.randint(most, (count,), generator=random) for most in (2, 4))
    return Placed(torch.cat([corners, corners + sizes], dim=1), images, levels)


def naive_sample(cells: Any, y: float, x: float) -> Any:
    """Between the four cells around a place; 0 more than one cell outside, else the border's value."""
    height, width = cells.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(len(cells))
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, over = y - top, x - left
    upper = (1 - over) * cells[:, top, left] + over * cells[:, top, right]
    lower = (1 - over) * cells[:, bottom, left] + over * cells[:, bottom, right]
    return (1 - down) * upper + down * lower


def naive_pool(features: list[Tensor], regions: Placed, side: int) -> Any:
    """Sample by sample, in float64."""
    pooled = np.zeros((len(regions.boxes), features[0].shape[1], side, side))
    for place, (box, image, level) in enumerate(zip(*(part.tolist() for part in regions), strict=True)):
        cells = features[level][image].double().numpy()
        top, left, bottom, right = (value / STRIDES[level] - 0.5 for value in box)
        height, width = (bottom - top) / side, (right - left) / side
        for row in range(side):
            for column in range(side):
                for quarter in range(4):
                    y = top + (row + 0.25 + 0.5 * (quarter // 2)) * height
                    x = left + (column + 0.25 + 0.5 * (quarter % 2)) * width
                    pooled[place, :, row, column] += naive_sample(cells, y, x) / 4
    return pooled


def test_a_region_is_read_between_the_cells() -> None:
    # A cell of stride 1 has its centre at + 0.5: the region from 2 to 4 has the cells 2 and 3.
    found = pool([ramp(8, 8)], (1,), placed([[2.0, 2.0, 4.0, 4.0], [2.5, 2.0, 4.5, 4.0]]), 2)
    assert found[0, 0].tolist() == [[22.0, 23.0], [32.0, 33.0]]
    assert found[1, 0].tolist() == [[27.0, 28.0], [37.0, 38.0]]


def test_boxes_are_in_pixels_of_the_image() -> None:
    found = pool([ramp(8, 8)], (4,), placed([[8.0, 8.0, 16.0, 16.0]]), 2)
    assert found[0, 0].tolist() == [[22.0, 23.0], [32.0, 33.0]]


def test_beyond_the_border_a_sample_has_the_borders_value_for_one_cell_and_then_0() -> None:
    ones = torch.ones(1, 1, 8, 8)
    # Samples at −3.5, −1.5, 0.5, 2.5 in both directions: the first two are too far out.
    assert pool([ones], (1,), placed([[-4.0, -4.0, 4.0, 4.0]]), 2)[0, 0].tolist() == [[0.0, 0.0], [0.0, 1.0]]
    # Rows at 6, 7, 8, 9: row 8 is the border's, row 9 is 0.
    assert pool([ones], (1,), placed([[6.0, 0.0, 10.0, 8.0]]), 2)[0, 0].tolist() == [[1.0, 1.0], [0.5, 0.5]]


def test_each_region_is_read_from_its_image_and_level() -> None:
    fine = torch.stack([torch.full((1, 8, 8), 1.0), torch.full((1, 8, 8), 2.0)])
    coarse = torch.stack([torch.full((1, 4, 4), 3.0), torch.full((1, 4, 4), 4.0)])
    boxes = [[1.0, 1.0, 3.0, 3.0]] * 4
    found = pool([fine, coarse], (1, 2), placed(boxes, [1, 0, 1, 0], [0, 0, 1, 1]), 1)
    assert found.flatten().tolist() == [2.0, 1.0, 4.0, 3.0]


def test_a_level_of_one_cell_and_a_region_without_area_can_be_read() -> None:
    level = torch.full((1, 1, 1, 1), 5.0)
    assert pool([level], (64,), placed([[0.0, 0.0, 64.0, 64.0], [3.0, 3.0, 3.0, 3.0]]), 1).flatten().tolist() == [5, 5]


def test_no_regions_give_an_empty_result_that_has_a_gradient() -> None:
    features = pyramid(torch.float32)
    features[0].requires_grad_()
    nothing = Placed(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    pooled = pool(features, STRIDES, nothing, 7)
    assert pooled.shape == (0, 3, 7, 7)
    pooled.sum().backward()
    assert features[0].grad is not None
    assert not features[0].grad.any()


def test_it_is_what_single_samples_give() -> None:
    regions = scattered(40)
    found = pool(pyramid(torch.float32), STRIDES, regions, 7)
    np.testing.assert_allclose(found.numpy(), naive_pool(pyramid(torch.float32), regions, 7), atol=2e-5)


def test_its_gradient_is_that_of_numeric_differences() -> None:
    features = [level.requires_grad_() for level in pyramid(channels=1)[2:]]  # 4 × 6 and 2 × 3 cells
    boxes, images, levels = scattered(6)
    regions = Placed(boxes, images, levels % 2)

    def pooled(*levels: Tensor) -> Tensor:
        return pool(levels, STRIDES[2:], regions, 2)

    assert torch.autograd.gradcheck(pooled, features)


def test_the_layout_in_memory_does_not_matter() -> None:
    features = pyramid(torch.float32)
    last = [level.contiguous(memory_format=torch.channels_last) for level in features]
    assert torch.equal(pool(features, STRIDES, scattered(20), 7), pool(last, STRIDES, scattered(20), 7))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_formats_are_read_at_places_known_in_fp32(dtype: torch.dtype) -> None:
    features = pyramid(dtype)
    found = pool(features, STRIDES, scattered(20), 7)
    assert found.dtype == dtype
    exact = pool([level.float() for level in features], STRIDES, scattered(20), 7)
    torch.testing.assert_close(found, exact.to(dtype), rtol=0, atol=0)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_it_agrees_with_torchvision(device: str) -> None:
    try:
        from torchvision.ops import roi_align
    except (ImportError, RuntimeError, AttributeError) as error:
        pytest.skip(f"torchvision does not load: {error}")
    level = pyramid(torch.float32)[0].to(device)
    boxes, images, _ = (part.to(device) for part in scattered(200))
    ours, theirs = level.clone().requires_grad_(), level.clone().requires_grad_()
    found = pool([ours], (4,), Placed(boxes, images, torch.zeros_like(images)), 7)
    rows = torch.cat([images[:, None].float(), boxes[:, [1, 0, 3, 2]]], dim=1)
    expected = roi_align(theirs, rows, 7, spatial_scale=0.25, sampling_ratio=2, aligned=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(3)).to(device)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=2e-4)
