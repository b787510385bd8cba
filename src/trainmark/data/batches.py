"""Batches from a split that lies whole in the device's memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainmark.data.epochs import Order
from trainmark.data.split import Split


class ResidentBatches:
    """The split as tensors on the device, normalised and laid out once; a batch is one gather."""

    def __init__(self, split: Split, device: torch.device, *, channels_last: bool) -> None:
        samples = torch.from_numpy(split.samples).to(device, torch.float32)
        samples = (samples - split.offset) / split.scale
        self.is_channels_last = channels_last and samples.ndim == 4
        # Gathering rows keeps the order of dimensions in memory, so N × H × W × C is stored and seen as N × C × H × W.
        self.samples = samples.permute(0, 2, 3, 1).contiguous() if self.is_channels_last else samples
        self.labels = torch.from_numpy(split.labels).to(device)
        self.device = device

    def take(self, rows: Order) -> Iterator[tuple[Tensor, Tensor]]:
        """The batch of each row of sample numbers."""
        indices = torch.from_numpy(rows).to(self.device)
        for row in indices:
            yield self._gather(row), self.labels.index_select(0, row)

    def in_order(self, indices: Order, batch_size: int) -> Iterator[Tensor]:
        """The samples of `indices`, `batch_size` at a time."""
        for part in torch.split(torch.from_numpy(indices).to(self.device), batch_size):
            yield self._gather(part)

    def _gather(self, row: Tensor) -> Tensor:
        batch = self.samples.index_select(0, row)
        return batch.permute(0, 3, 1, 2) if self.is_channels_last else batch
