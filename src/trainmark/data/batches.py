"""Batches on the device: gathered from a split held whole in its memory, or made up once for throughput runs."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from trainmark.data.epochs import MOST_SHIFT, Order, Views
from trainmark.data.split import Split


class Batches(Protocol):
    """Where a loop's batches come from."""

    def take(self, rows: Order, views: Views | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The batch of each row of sample numbers, each sample seen as `views` says."""
        ...


class KnownBatches(Batches, Protocol):
    """Batches of samples whose targets are known, so that predictions can be scored."""

    @property
    def labels(self) -> Tensor:
        """The targets of all samples."""
        ...

    def in_order(self, indices: Order, batch_size: int) -> Iterator[Tensor]:
        """The samples of `indices`, `batch_size` at a time."""
        ...


class ResidentBatches:
    """The split as tensors on the device, normalised and laid out once; a batch is one gather."""

    def __init__(self, split: Split, device: torch.device, *, channels_last: bool) -> None:
        samples = torch.from_numpy(split.samples).to(device, torch.float32)
        samples = (samples - _by_channel(split.offset, samples)) / _by_channel(split.scale, samples)
        self.is_channels_last = channels_last and samples.ndim == 4
        # Gathering rows keeps the order of dimensions in memory, so N × H × W × C is stored and seen as N × C × H × W.
        self.samples = samples.permute(0, 2, 3, 1).contiguous() if self.is_channels_last else samples.contiguous()
        self.labels = torch.from_numpy(split.labels).to(device)
        self.device = device
        self._framed: Tensor | None = None

    def take(self, rows: Order, views: Views | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The batch of each row of sample numbers, each sample seen as `views` says."""
        indices = torch.from_numpy(rows).to(self.device)
        seen = None if views is None else torch.from_numpy(views).to(self.device)
        for step, row in enumerate(indices):
            samples = self._gather(row) if seen is None else self._gather_views(row, seen[step])
            yield samples, self.labels.index_select(0, row)

    def in_order(self, indices: Order, batch_size: int) -> Iterator[Tensor]:
        """The samples of `indices`, `batch_size` at a time."""
        for part in torch.split(torch.from_numpy(indices).to(self.device), batch_size):
            yield self._gather(part)

    def _gather(self, row: Tensor) -> Tensor:
        batch = self.samples.index_select(0, row)
        return batch.permute(0, 3, 1, 2) if self.is_channels_last else batch

    def _gather_views(self, row: Tensor, views: Tensor) -> Tensor:
        """The images of `row`, mirrored and moved: one gather from images with a frame of background around them."""
        if self._framed is None:
            self._framed = _framed(self.samples, channels_last=self.is_channels_last)
        height, width = (size - 2 * MOST_SHIFT for size in self._framed.shape[1:3])
        mirrored, down, right = views.unbind(1)
        y = MOST_SHIFT - down[:, None] + torch.arange(height, device=self.device)
        x = torch.arange(width, device=self.device) - right[:, None]
        x = MOST_SHIFT + torch.where(mirrored[:, None] == 1, width - 1 - x, x)
        batch = self._framed[row[:, None, None], y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)
        return batch if self.is_channels_last else batch.contiguous()


def _by_channel(value: float | NDArray[np.float32], samples: Tensor) -> float | Tensor:
    """A number as it is; one per channel so that it meets its channel of N × C × …."""
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value).to(samples).reshape(-1, *(1 for _ in samples.shape[2:]))


def _framed(samples: Tensor, *, channels_last: bool) -> Tensor:
    """N × H × W × C with a frame of zeros, the middle of the value range."""
    images = samples if channels_last else samples.permute(0, 2, 3, 1)
    return F.pad(images, (0, 0, MOST_SHIFT, MOST_SHIFT, MOST_SHIFT, MOST_SHIFT)).contiguous()


class SyntheticBatches:
    """One batch of random values, made once on the device and given in every step: nothing is read or copied."""

    def __init__(
        self,
        shape: tuple[int, ...],
        targets_of: Callable[[int], Tensor],
        random: torch.Generator,
        *,
        channels_last: bool,
    ) -> None:
        self._shape = shape
        self._targets_of = targets_of
        self._random = random
        self._layout = torch.channels_last if channels_last and len(shape) == 3 else torch.contiguous_format
        self._batch: tuple[Tensor, Tensor] | None = None

    def take(self, rows: Order, views: Views | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The same batch for each row."""
        if self._batch is None or len(self._batch[0]) != rows.shape[1]:
            self._batch = self._make(rows.shape[1])
        for _ in range(len(rows)):
            yield self._batch

    def _make(self, batch_size: int) -> tuple[Tensor, Tensor]:
        samples = torch.randn(batch_size, *self._shape, device=self._random.device, generator=self._random)
        return samples.contiguous(memory_format=self._layout), self._targets_of(batch_size)
