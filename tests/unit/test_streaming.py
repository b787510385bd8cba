"""Batches read from disk: the same whatever processes read them, normalised, with the changes that were asked for."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.waiting import wait_until
from trainmark.data.readers import ReaderDiedError, Readers, Wanted
from trainmark.data.source import Streamed
from trainmark.spec.errors import DataError
from trainmark.train.torch.batches import StreamedBatches

CPU = torch.device("cpu")


def one_of(split: int, index: int) -> Wanted:
    """A batch of one unchanged sample."""
    return Wanted(split, np.array([index]), np.array([0]))


class Numbered:
    """Sample i is filled with i, plus the seed if it is to be changed; sample 7 cannot be read."""

    labels = np.arange(10) * 10
    sample_shape = (2, 3, 4)
    shapes = None
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
    split = Numbered()
    readers = Readers([split], "crop", loader_workers)
    return StreamedBatches(Streamed(split, readers), CPU, channels_last=channels_last)


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
    parts = list(batches(loader_workers).in_order([np.array([1, 2]), np.array([3, 4]), np.array([5])]))
    assert [part[:, 0, 0, 0].tolist() for part in parts] == [[0, 1], [2, 3], [4]]


def test_batches_have_the_layout_that_was_asked_for() -> None:
    (part,) = batches(0, channels_last=True).in_order([np.array([1, 2])])
    assert part.is_contiguous(memory_format=torch.channels_last) and part.dtype == torch.float32


@pytest.mark.parametrize("loader_workers", [0, 1])
def test_a_sample_that_cannot_be_read_ends_the_epoch_with_its_name(loader_workers: int) -> None:
    with pytest.raises(DataError, match=r"^stored\.bin, sample 7: cannot be read\.$"):
        list(batches(loader_workers).take(np.array([[1, 7]]), None))


class Signed(Numbered):
    """Samples that tell which process has read them."""

    held: Callable[[], None] | None = None

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        return np.full(1, os.getpid())


def test_the_same_processes_read_all_splits_epoch_after_epoch() -> None:
    readers = Readers([Signed(), Signed()], "none", 2)
    rounds = [{int(samples.item()) for samples in readers.read([one_of(split, 0)] * 4)} for split in (0, 1, 0)]
    assert len(rounds[0]) == 2 and rounds[1] == rounds[2] == rounds[0]
    assert os.getpid() not in rounds[0]


def test_batches_that_nobody_took_are_not_given_to_the_next_who_asks() -> None:
    readers = Readers([Numbered()], "none", 2)
    assert next(readers.read([one_of(0, index) for index in range(6)])).flatten()[0] == 0
    assert [part.flatten()[0] for part in readers.read([one_of(0, 8), one_of(0, 9)])] == [8, 9]


def test_readers_are_forked_however_this_python_starts_other_processes() -> None:
    usual = multiprocessing.get_start_method(allow_none=True)
    split = Signed()
    split.held = lambda: None  # what cannot be sent to a process that is not a copy
    try:
        multiprocessing.set_start_method("spawn", force=True)
        (samples,) = Readers([split], "none", 1).read([one_of(0, 0)])
    finally:
        multiprocessing.set_start_method(usual, force=True)
    assert int(samples.item()) != os.getpid()


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_reading_leaves_the_random_numbers_of_the_training_alone(loader_workers: int) -> None:
    before = torch.get_rng_state()
    list(batches(loader_workers).in_order([np.array([1]), np.array([2])]))
    assert torch.equal(torch.get_rng_state(), before)


def test_readers_end_with_the_process_that_made_them() -> None:
    told, tell = os.pipe()
    maker = os.fork()
    if maker == 0:
        try:
            (samples,) = Readers([Signed()], "none", 1).read([one_of(0, 0)])
            os.write(tell, str(int(samples.item())).encode())
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    reader = int(os.read(told, 20))
    os.kill(maker, signal.SIGKILL)
    os.waitpid(maker, 0)
    stat = Path(f"/proc/{reader}/stat")
    wait_until(lambda: not stat.exists() or ") Z " in stat.read_text(), seconds=3)


class Uneven(Numbered):
    """Samples whose size differs from batch to batch."""

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        return np.full((index + 1, 2), index, np.int16)


def test_batches_of_unlike_sizes_come_through_the_same_memory() -> None:
    readers = Readers([Uneven()], "none", 2)
    for _ in range(2):
        seen = [samples.copy() for samples in readers.read([one_of(0, index) for index in (1, 9, 0, 5, 8, 2, 7)])]
        assert [each.shape for each in seen] == [(1, n + 1, 2) for n in (1, 9, 0, 5, 8, 2, 7)]
        assert [set(each.ravel().tolist()) for each in seen] == [{n} for n in (1, 9, 0, 5, 8, 2, 7)]


def test_a_batch_in_hand_stays_as_it_is_while_others_are_read_ahead() -> None:
    readers = Readers([Numbered()], "none", 1)
    for index, samples in enumerate(readers.read([one_of(0, index) for index in range(7)])):
        time.sleep(0.02)  # in which the reader fills all the buffers that it may
        assert set(samples.ravel().tolist()) == {index}


def test_a_reader_that_is_killed_ends_the_epoch_with_its_cause() -> None:
    readers = Readers([Signed()], "none", 1)
    (samples,) = readers.read([one_of(0, 0)])
    os.kill(int(samples.item()), signal.SIGKILL)
    with pytest.raises(ReaderDiedError, match=r"^A reader process failed: killed by signal 9 \(SIGKILL\); "):
        list(readers.read([one_of(0, 0)]))
