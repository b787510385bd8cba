"""Processes that read samples from disk and decode them, ahead of the training."""

import os
import signal
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainmark.data.split import StoredSplit
from trainmark.machine.processes import end_with_parent
from trainmark.spec.errors import DataError

AHEAD = 2  # batches that each process has under way

Wanted = tuple[int, int, int]  # number of a split, number of a sample in it, seed of its random change


class Readers:
    """`count` processes that read samples of all `splits`; none: this process reads them itself.

    They are forked here, once, and end with this process. Make them before other threads are at work in it: a lock that
    one of them holds in the moment of a fork is never given back in the process that was forked.
    """

    def __init__(self, splits: Sequence[StoredSplit], augmentation: str, count: int, *, pinned: bool) -> None:
        self._splits = splits
        self._batches: list[list[Wanted]] = []
        self._loader = DataLoader(
            _Samples(splits, augmentation),
            batch_sampler=self._batches,
            num_workers=count,
            multiprocessing_context="fork" if count else None,  # from Python 3.14 on the default is another
            persistent_workers=count > 0,
            prefetch_factor=AHEAD if count else None,
            worker_init_fn=partial(_end_with, os.getpid()),
            collate_fn=_stacked,
            pin_memory=pinned,
            generator=torch.Generator(),  # else it would draw from the random numbers of the training
        )
        if count:
            iter(self._loader)

    def number_of(self, split: StoredSplit) -> int:
        """Which of the splits this is."""
        return next(number for number, each in enumerate(self._splits) if each is split)

    def read(self, batches: Sequence[list[Wanted]]) -> Iterator[Tensor]:
        """The samples of each batch; the batches of an earlier call must have been taken by now, or are given up."""
        self._batches[:] = batches
        for samples in self._loader:
            if isinstance(samples, DataError):
                raise samples
            yield samples


class _Samples(Dataset[NDArray[np.generic] | DataError]):
    """What each process is given: the splits, and how their samples are changed."""

    def __init__(self, splits: Sequence[StoredSplit], augmentation: str) -> None:
        self._splits = splits
        self._augmentation = augmentation

    def __getitem__(self, wanted: Wanted) -> NDArray[np.generic] | DataError:
        split, index, seed = wanted
        try:
            return self._splits[split].read(index, self._augmentation, seed)
        except DataError as error:  # given back as it is: the library would bury its words in a traceback
            return error


def _end_with(parent: int, number: int) -> None:
    end_with_parent(parent, signal.SIGKILL)


def _stacked(samples: list[NDArray[np.generic] | DataError]) -> Tensor | DataError:
    arrays = []
    for sample in samples:
        if isinstance(sample, DataError):
            return sample
        arrays.append(sample)
    return torch.from_numpy(np.stack(arrays))
