"""Batches read from disk: the same whatever processes read them, normalised, with the changes that were asked for."""

import os
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trainmark.data.streaming import StreamedBatches
from trainmark.spec.errors import DataError

CPU = torch.device("cpu")


class Numbered:
    """Sample i is filled with i, plus the seed if it is to be changed; sample 7 cannot be read."""

    labels = np.arange(10) * 10
    sample_shape = (2, 3, 4)
    offset = np.array([1.0, 3.0], np.float32)
    scale = np.array([1.0, 2.0], np.float32)

    def __init__(self) -> None:
        self.owner = os.getpid()

    def __len__(self) -> int:
        return 10

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        if index == 7:
            raise DataError("stored.bin, sample 7: cannot be read.")
        changed = seed if augmentation == "crop" else 0
        return np.full(self.sample_shape, index + changed, np.uint8)

    def fingerprint(self) -> str:
        return "numbered"


def batches(loader_workers: int, *, channels_last: bool = False) -> StreamedBatches:
    return StreamedBatches(
        Numbered(), CPU, channels_last=channels_last, augmentation="crop", loader_workers=loader_workers
    )


@pytest.mark.parametrize("loader_workers", [0, 1, 3])
def test_batches_are_the_same_whoever_reads_them(loader_workers: int) -> None:
    rows = np.array([[3, 1], [0, 9], [5, 5]])
    seeds = np.array([[0, 2], [0, 0], [100, 0]])
    taken = list(batches(loader_workers).take(rows, seeds))
    # Channel 0: value − 1; channel 1: (value − 3) / 2.
    assert [samples[:, 0, 0, 0].tolist() for samples, _ in taken] == [[2, 2], [-1, 8], [104, 4]]
    assert [samples[:, 1, 2, 3].tolist() for samples, _ in taken] == [[0, 0], [-1.5, 3], [51, 1]]
    assert [labels.tolist() for _, labels in taken] == [[30, 10], [0, 90], [50, 50]]


def test_without_views_samples_are_as_they_are() -> None:
    ((samples, _),) = batches(0).take(np.array([[4, 2]]), None)
    assert samples[:, 0, 0, 0].tolist() == [3, 1]


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_samples_come_in_order_the_last_batch_smaller(loader_workers: int) -> None:
    parts = list(batches(loader_workers).in_order(np.array([1, 2, 3, 4, 5]), 2))
    assert [part[:, 0, 0, 0].tolist() for part in parts] == [[0, 1], [2, 3], [4]]


def test_batches_have_the_layout_that_was_asked_for() -> None:
    (part,) = batches(0, channels_last=True).in_order(np.array([1, 2]), 2)
    assert part.is_contiguous(memory_format=torch.channels_last) and part.dtype == torch.float32


@pytest.mark.parametrize("loader_workers", [0, 1])
def test_a_sample_that_cannot_be_read_ends_the_epoch_with_its_name(loader_workers: int) -> None:
    with pytest.raises(DataError, match=r"^stored\.bin, sample 7: cannot be read\.$"):
        list(batches(loader_workers).take(np.array([[1, 7]]), None))
