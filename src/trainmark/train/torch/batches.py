"""Batches on the device: gathered from a resident split, prefetched from readers, or synthetic."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from trainmark.data.epochs import MAX_SHIFT, Indices, Passes, Rows, RowViews
from trainmark.data.source import Streamed
from trainmark.data.split import Split
from trainmark.train.torch.padding import zero_padding
from trainmark.train.torch.protocols import Pass, StepPasses

PINNED_AHEAD = 2  # prefetched batches in pinned memory


Batch = tuple[Tensor, Tensor]  # inputs and targets


class Batches(Protocol):
    """The source of training batches."""

    def take(self, rows: Rows, views: RowViews | None) -> Iterator[Batch]:
        """Yields the batch of each row of sample indices, augmented as `views` says."""
        ...


class DatasetBatches(Batches, Protocol):
    """Batches of real samples, which can also be predicted."""

    def in_order(self, rows: Sequence[Indices]) -> Iterator[Tensor]:
        """Yields the samples of each row of sample indices, not augmented."""
        ...


class ResidentBatches:
    """The split as tensors on the device, normalised and converted to its memory format once; a batch is one gather."""

    def __init__(self, split: Split, device: torch.device, *, channels_last: bool) -> None:
        samples = torch.from_numpy(split.samples).to(device, torch.float32)
        samples = (samples - _by_channel(split.offset, samples)) / _by_channel(split.scale, samples)
        self.is_channels_last = channels_last and samples.ndim == 4
        # A gather keeps the order of dimensions in memory, so N × H × W × C is stored and viewed as N × C × H × W.
        self.samples = samples.permute(0, 2, 3, 1).contiguous() if self.is_channels_last else samples.contiguous()
        self.labels = torch.from_numpy(split.labels).to(device)
        self.device = device
        self._padded: Tensor | None = None

    def take(self, rows: Rows, views: RowViews | None) -> Iterator[Batch]:
        """Yields the batch of each row of sample indices, augmented as `views` says."""
        indices = torch.from_numpy(np.asarray(rows)).to(self.device)
        seen = None if views is None else torch.from_numpy(np.asarray(views)).to(self.device)
        for step, row in enumerate(indices):
            # Not kept in a variable: a batch is freed as soon as its step ends.
            yield (
                self._gather(row) if seen is None else self._gather_views(row, seen[step]),
                self.labels.index_select(0, row),
            )

    def in_order(self, rows: Sequence[Indices]) -> Iterator[Tensor]:
        """Yields the samples of each row of sample indices."""
        for row in rows:
            yield self._gather(torch.from_numpy(row).to(self.device))

    def _gather(self, row: Tensor) -> Tensor:
        batch = self.samples.index_select(0, row)
        return batch.permute(0, 3, 1, 2) if self.is_channels_last else batch

    def _gather_views(self, row: Tensor, views: Tensor) -> Tensor:
        """The images of `row`, flipped and shifted: one gather from zero-padded images."""
        if self._padded is None:
            self._padded = _padded(self.samples, channels_last=self.is_channels_last)
        height, width = (size - 2 * MAX_SHIFT for size in self._padded.shape[1:3])
        mirrored, down, right = views.unbind(1)
        y = MAX_SHIFT - down[:, None] + torch.arange(height, device=self.device)
        x = torch.arange(width, device=self.device) - right[:, None]
        x = MAX_SHIFT + torch.where(mirrored[:, None] == 1, width - 1 - x, x)
        batch = self._padded[row[:, None, None], y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)
        return batch if self.is_channels_last else batch.contiguous()


def _by_channel(value: float | NDArray[np.float32], samples: Tensor) -> float | Tensor:
    """A scalar unchanged; per-channel values shaped to broadcast over N × C × …."""
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value).to(samples).reshape(-1, *(1 for _ in samples.shape[2:]))


def _padded(samples: Tensor, *, channels_last: bool) -> Tensor:
    """N × H × W × C, padded with zeros, the middle of the value range."""
    images = samples if channels_last else samples.permute(0, 2, 3, 1)
    return F.pad(images, (0, 0, MAX_SHIFT, MAX_SHIFT, MAX_SHIFT, MAX_SHIFT)).contiguous()


class StreamedBatches:
    """Samples from reader processes; for a GPU, a thread prefetches them into pinned memory."""

    def __init__(self, source: Streamed, device: torch.device, *, channels_last: bool) -> None:
        split = source.split
        self._source = source
        self._device = device
        self._layout = (
            torch.channels_last if channels_last and len(split.sample_shape) == 3 else torch.contiguous_format
        )
        self._labels = torch.from_numpy(split.labels).to(device)
        self._offset, self._scale = (
            torch.as_tensor(values, dtype=torch.float32, device=device).reshape(-1, 1, 1)
            for values in (split.offset, split.scale)
        )

    def take(self, rows: Rows, views: RowViews | None) -> Iterator[Batch]:
        """Yields the batch of each row of sample indices, augmented as `views` says."""
        stored = self._source.read(list(rows), None if views is None else list(views))
        for row, samples in zip(rows, self._tensors(stored), strict=True):
            yield self._prepared(samples), self._labels.index_select(0, torch.from_numpy(row).to(self._device))

    def take_passes(self, rows: Rows, views: RowViews | None, passes: Sequence[Passes]) -> Iterator[StepPasses]:
        """Yields the passes of each row, each padded to its own largest image; all are taken before the next row."""
        shapes = self._source.split.shapes
        assert shapes is not None, "passes are planned for images of unlike shape"
        parts = _by_pass(rows, passes)
        batches = zip(parts, self.take(parts, None if views is None else _by_pass(views, passes)), strict=True)

        def converted(planned: Passes) -> Iterator[Pass]:
            for (_, weight), (row, (images, targets)) in zip(planned, batches, strict=False):
                sizes = torch.from_numpy(shapes[row])
                yield Pass(zero_padding(images, sizes), targets, weight, sizes=sizes)
                del images

        for planned in passes:
            others = converted(planned)
            yield StepPasses(next(others), others, len(planned) - 1)

    def in_order(self, rows: Sequence[Indices]) -> Iterator[Tensor]:
        """Yields the samples of each row of sample indices."""
        for samples in self._tensors(self._source.read(list(rows), None)):
            yield self._prepared(samples)

    def _tensors(self, arrays: Iterator[NDArray[Any]]) -> Iterator[Tensor]:
        return pinned(arrays) if self._device.type == "cuda" else (torch.from_numpy(array) for array in arrays)

    def _prepared(self, samples: Tensor) -> Tensor:
        """Model inputs on the device, normalised, in its memory format; always a copy: readers reuse their buffers."""
        if self._device.type == "cuda":
            values = samples.to(self._device, non_blocking=True).float()
        else:
            values = samples.to(torch.float32, copy=True)
        return values.sub_(self._offset).div_(self._scale).contiguous(memory_format=self._layout)


def _by_pass(rows: Rows, passes: Sequence[Passes]) -> list[NDArray[Any]]:
    """The values of all steps, an array per pass."""
    counts = ([samples for samples, _ in of_step] for of_step in passes)
    ends = (np.cumsum(of_step)[:-1] for of_step in counts)
    return [part for row, at in zip(rows, ends, strict=True) for part in np.split(row, at)]


def pinned(arrays: Iterator[NDArray[Any]]) -> Iterator[Tensor]:
    """Yields each array as a tensor in pinned memory, copied ahead by a thread."""
    ready: Queue[Tensor | BaseException | None] = Queue(PINNED_AHEAD)
    is_stopped = threading.Event()

    def copy() -> None:
        try:
            for array in arrays:
                # By numpy, in this thread alone: torch's copy would take the cores of reader processes.
                held = torch.empty_like(torch.from_numpy(array), pin_memory=True)
                np.copyto(held.numpy(), array)
                _put(ready, held, is_stopped)
                if is_stopped.is_set():
                    return
            _put(ready, None, is_stopped)
        except BaseException as error:  # noqa: BLE001  raised in the consumer
            _put(ready, error, is_stopped)

    thread = threading.Thread(target=copy, name="pinning", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        is_stopped.set()
        with suppress(Empty):
            while True:
                ready.get_nowait()
        thread.join()


def _put(queue: "Queue[Any]", item: Any, is_stopped: threading.Event) -> None:
    """Blocks until the queue has room or the consumer has stopped."""
    while not is_stopped.is_set():
        with suppress(Full):
            queue.put(item, timeout=0.1)
            return


class SyntheticBatches:
    """One random batch, generated once on the device and used in every step: nothing is read or copied."""

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

    def take(self, rows: Rows, views: RowViews | None) -> Iterator[Batch]:
        """Yields the same batch for each row."""
        if len(rows) and (self._batch is None or len(self._batch[0]) != len(rows[0])):
            self._batch = self._make(len(rows[0]))
        for _ in range(len(rows)):
            assert self._batch is not None
            yield self._batch

    def _make(self, batch_size: int) -> tuple[Tensor, Tensor]:
        samples = torch.randn(batch_size, *self._shape, device=self._random.device, generator=self._random)
        return samples.contiguous(memory_format=self._layout), self._targets_of(batch_size)
