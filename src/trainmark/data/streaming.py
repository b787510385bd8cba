"""Batches of a split that is read from disk: processes read and decode ahead of the training."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainmark.data.augmentation import Views
from trainmark.data.epochs import Order
from trainmark.data.split import StoredSplit
from trainmark.spec.errors import DataError

AHEAD = 2  # batches that each reading process has under way

Wanted = tuple[int, int]  # number of a sample, seed of its random change


class StreamedBatches:
    """Batches as `loader_workers` processes read them; none: the training process reads them itself.

    Which samples a batch has, and how each is changed, depends on its rows and views alone, not on the processes.
    """

    def __init__(
        self,
        split: StoredSplit,
        device: torch.device,
        *,
        channels_last: bool,
        augmentation: str,
        loader_workers: int,
    ) -> None:
        self._reader = _Reader(split, augmentation)
        self._workers = loader_workers
        self._device = device
        self._is_channels_last = channels_last and len(split.sample_shape) == 3
        self.labels = torch.from_numpy(split.labels).to(device)
        self._offset, self._scale = (
            torch.as_tensor(values, dtype=torch.float32, device=device).reshape(-1, 1, 1)
            for values in (split.offset, split.scale)
        )

    def take(self, rows: Order, views: Views | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The batch of each row of sample numbers, each sample seen as `views` says."""
        seeds = np.zeros_like(rows) if views is None else views.reshape(rows.shape)
        wanted = [list(zip(row.tolist(), seed.tolist(), strict=True)) for row, seed in zip(rows, seeds, strict=True)]
        for row, samples in zip(rows, self._read(wanted), strict=True):
            yield samples, self.labels.index_select(0, torch.from_numpy(row).to(self._device))

    def in_order(self, indices: Order, batch_size: int) -> Iterator[Tensor]:
        """The samples of `indices`, `batch_size` at a time."""
        parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]
        yield from self._read([[(index, 0) for index in part.tolist()] for part in parts])

    def _read(self, batches: Sequence[list[Wanted]]) -> Iterator[Tensor]:
        loader = DataLoader(
            self._reader,
            batch_sampler=batches,
            num_workers=min(self._workers, len(batches)),
            collate_fn=_stacked,
            prefetch_factor=AHEAD if self._workers and batches else None,
            pin_memory=self._device.type == "cuda",
        )
        for samples in loader:
            if isinstance(samples, DataError):
                raise samples
            yield self._prepared(samples)

    def _prepared(self, samples: Tensor) -> Tensor:
        """As the model takes them: on its device, normalised, in its layout."""
        layout = torch.channels_last if self._is_channels_last else torch.contiguous_format
        values = samples.to(self._device, non_blocking=True).float().sub_(self._offset).div_(self._scale)
        return values.contiguous(memory_format=layout)


class _Reader(Dataset[NDArray[np.generic] | DataError]):
    """What each reading process is given: the split, and how its samples are changed."""

    def __init__(self, split: StoredSplit, augmentation: str) -> None:
        self._split = split
        self._augmentation = augmentation

    def __getitem__(self, wanted: Wanted) -> NDArray[np.generic] | DataError:
        index, seed = wanted
        try:
            return self._split.read(index, self._augmentation, seed)
        except DataError as error:  # given back as it is: the library would bury its words in a traceback
            return error


def _stacked(samples: list[NDArray[np.generic] | DataError]) -> Tensor | DataError:
    arrays = []
    for sample in samples:
        if isinstance(sample, DataError):
            return sample
        arrays.append(sample)
    return torch.from_numpy(np.stack(arrays))
