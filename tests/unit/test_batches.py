"""Batches: gathered, mirrored, moved and made up."""

import numpy as np
import pytest
import torch

from trainmark.data.epochs import MAX_SHIFT, epoch_views, unchanged
from trainmark.data.split import Split
from trainmark.train.torch.batches import ResidentBatches, SyntheticBatches

CPU = torch.device("cpu")
IMAGES = np.random.default_rng(0).integers(0, 255, (6, 3, 10, 12)).astype(np.uint8)
SPLIT = Split(IMAGES, np.arange(6), offset=128.0, scale=64.0)


def by_hand(image: np.ndarray, mirrored: int, down: int, right: int) -> np.ndarray:
    """The normalised image, mirrored, then moved pixel by pixel."""
    values = (image.astype(np.float32) - 128) / 64
    values = values[:, :, ::-1] if mirrored else values
    moved = np.zeros_like(values)
    height, width = values.shape[1:]
    for y in range(height):
        for x in range(width):
            if 0 <= y - down < height and 0 <= x - right < width:
                moved[:, y, x] = values[:, y - down, x - right]
    return moved


@pytest.mark.parametrize("channels_last", [True, False])
def test_views_mirror_and_move_each_image_as_asked(channels_last: bool) -> None:
    batches = ResidentBatches(SPLIT, CPU, channels_last=channels_last)
    views = np.array([[[0, 0, 0], [1, 0, 0], [0, 3, -2], [1, -MAX_SHIFT, MAX_SHIFT]]])
    ((samples, labels),) = batches.take(np.array([[5, 0, 2, 3]]), views)
    assert labels.tolist() == [5, 0, 2, 3]
    for sample, number, view in zip(samples, (5, 0, 2, 3), views[0], strict=True):
        assert np.array_equal(sample.numpy(), by_hand(IMAGES[number], *view))
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert samples.is_contiguous(memory_format=layout)


def test_unchanged_views_give_the_plain_batch() -> None:
    batches = ResidentBatches(SPLIT, CPU, channels_last=True)
    rows = np.array([[1, 4]])
    views = epoch_views("flip-shift", 2, seed=1, member=0, epoch=0)
    assert views is not None
    ((plain, _),) = batches.take(rows, None)
    ((same, _),) = batches.take(rows, unchanged(views)[None])
    assert torch.equal(plain, same)


def test_views_differ_by_epoch_and_member_and_stay_in_range() -> None:
    first = epoch_views("flip-shift", 2000, seed=1, member=0, epoch=0)
    assert first is not None
    assert np.array_equal(first, epoch_views("flip-shift", 2000, seed=1, member=0, epoch=0))
    for other in (
        epoch_views("flip-shift", 2000, seed=1, member=0, epoch=1),
        epoch_views("flip-shift", 2000, seed=1, member=1, epoch=0),
    ):
        assert not np.array_equal(first, other)
    assert set(np.unique(first[:, 0])) == {0, 1}
    assert (first[:, 1:].min(), first[:, 1:].max()) == (-MAX_SHIFT, MAX_SHIFT)
    assert epoch_views("none", 10, seed=1, member=0, epoch=0) is None


@pytest.mark.parametrize("channels_last", [True, False])
def test_a_synthetic_batch_is_made_once_and_given_again(channels_last: bool) -> None:
    random = torch.Generator().manual_seed(1)
    batches = SyntheticBatches((3, 8, 9), torch.arange, random, channels_last=channels_last)
    (first, labels), (second, _) = batches.take(np.zeros((2, 4), np.int64), None)
    assert first.shape == (4, 3, 8, 9)
    assert first.data_ptr() == second.data_ptr()
    assert first.is_contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    assert labels.tolist() == [0, 1, 2, 3]
    assert 0.8 < float(first.std()) < 1.2
