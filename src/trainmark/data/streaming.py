"""Batches of a split that is read from disk, ready for the model."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from trainmark.data.epochs import Order, Views
from trainmark.data.readers import Readers, Wanted
from trainmark.data.split import StoredSplit


class StreamedBatches:
    """Batches of one of the readers' splits.

    Which samples a batch has, and how each is changed, depends on its rows and views alone, not on who reads them.
    """

    def __init__(self, readers: Readers, split: StoredSplit, device: torch.device, *, channels_last: bool) -> None:
        self._readers = readers
        self._number = readers.number_of(split)
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
        for row, samples in zip(rows, self._read(list(zip(rows, seeds, strict=True))), strict=True):
            yield samples, self.labels.index_select(0, torch.from_numpy(row).to(self._device))

    def in_order(self, indices: Order, batch_size: int) -> Iterator[Tensor]:
        """The samples of `indices`, `batch_size` at a time."""
        parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]
        yield from self._read([(part, np.zeros_like(part)) for part in parts])

    def _read(self, batches: Sequence[tuple[Order, Views]]) -> Iterator[Tensor]:
        for samples in self._readers.read([self._wanted(*batch) for batch in batches]):
            yield self._prepared(samples)

    def _wanted(self, row: Order, seeds: Views) -> list[Wanted]:
        return [(self._number, index, seed) for index, seed in zip(row.tolist(), seeds.tolist(), strict=True)]

    def _prepared(self, samples: Tensor) -> Tensor:
        """As the model takes them: on its device, normalised, in its layout."""
        layout = torch.channels_last if self._is_channels_last else torch.contiguous_format
        values = samples.to(self._device, non_blocking=True).float().sub_(self._offset).div_(self._scale)
        return values.contiguous(memory_format=layout)
