"""The source of a rank's samples, in numpy: resident in memory, streamed from disk, or synthetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import MAX_SHIFT, Indices, Rows, RowViews, Views
from trainmark.data.readers import Readers, Wanted
from trainmark.data.split import Split, StoredSplit

Samples = NDArray[Any]


@dataclass(eq=False)
class Resident:
    """A split in memory."""

    split: Split

    def release_samples(self) -> None:
        """Frees the samples, keeping the labels; for an engine that holds its own copy."""
        self.split = replace(self.split, samples=self.split.samples[:0].copy())


@dataclass(frozen=True, eq=False)
class Streamed:
    """A split whose samples are read from disk by reader processes.

    The samples of a batch and their augmentation depend on its rows and views only, not on which process reads them.
    """

    split: StoredSplit
    readers: Readers

    def read(self, rows: Sequence[Indices], views: Sequence[Views] | None) -> Iterator[Samples]:
        """Yields the samples of each row, augmented as `views` says; each array is valid until the next one."""
        number = self.readers.number_of(self.split)
        seeds = [np.zeros_like(row) for row in rows] if views is None else [view.reshape(-1) for view in views]
        return self.readers.read([Wanted(number, *each) for each in zip(rows, seeds, strict=True)])


@dataclass(frozen=True)
class Synthetic:
    """Random samples that the engine generates once, on its device: nothing is read or copied."""

    shape: tuple[int, ...]
    num_classes: int
    seed: int


DatasetSource = Resident | Streamed  # with labels, so that predictions can be scored
Source = DatasetSource | Synthetic


def batches_of(
    source: DatasetSource, rows: Rows, views: RowViews | None
) -> Iterator[tuple[NDArray[np.float32], NDArray[Any]]]:
    """Yields model inputs and targets of each row, for engines that take numpy; images are N × C × H × W."""
    labels = source.split.labels
    if isinstance(source, Streamed):
        for row, samples in zip(rows, source.read(list(rows), None if views is None else list(views)), strict=True):
            yield normalised(samples, source.split), labels[row]
        return
    for step, row in enumerate(rows):
        samples = normalised(source.split.samples[row], source.split)
        yield samples if views is None else shifted(samples, views[step]), labels[row]


def samples_of(source: DatasetSource, indices: Indices, batch_size: int) -> Iterator[NDArray[np.float32]]:
    """Yields model inputs of `indices`, not augmented, `batch_size` at a time."""
    parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]
    stored = (
        source.read(parts, None) if isinstance(source, Streamed) else (source.split.samples[part] for part in parts)
    )
    for samples in stored:
        yield normalised(samples, source.split)


def alike(source: DatasetSource, indices: Indices, batch_size: int, most_px: int | None) -> list[Indices]:
    """Positions in `indices` of each batch to predict: consecutive, or images of one shape alone.

    So predictions never see padding, and depend neither on the batch nor on the number of workers. A batch of one
    shape has at most `most_px` pixels, those of the largest training pass, so that it needs no more memory than
    training; an image above that is alone.
    """
    shapes = source.split.shapes
    if shapes is None or most_px is None:
        return [np.arange(start, min(start + batch_size, len(indices))) for start in range(0, len(indices), batch_size)]
    _, number = np.unique(shapes[indices], axis=0, return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(number.reshape(-1)[order])) + 1)
    sizes = [max(1, min(batch_size, most_px // int(shapes[indices[group[0]]].prod()))) for group in groups]
    return [
        group[at : at + size] for group, size in zip(groups, sizes, strict=True) for at in range(0, len(group), size)
    ]


def normalised(samples: Samples, split: Split | StoredSplit) -> NDArray[np.float32]:
    """(value − offset) / scale, with scalars or per-channel values."""
    values = samples.astype(np.float32)
    for factor, apply in ((split.offset, np.subtract), (split.scale, np.divide)):
        by_channel = np.asarray(factor, np.float32)
        if by_channel.ndim:
            by_channel = by_channel.reshape(-1, *(1 for _ in samples.shape[2:]))
        apply(values, by_channel, out=values)
    return values


def shifted(images: NDArray[np.float32], views: Views) -> NDArray[np.float32]:
    """N × C × H × W images, each mirrored and shifted as its view says, padded with 0, the background."""
    height, width = images.shape[2:]
    padding = ((0, 0), (0, 0), (MAX_SHIFT, MAX_SHIFT), (MAX_SHIFT, MAX_SHIFT))
    padded = np.pad(images, padding)
    mirrored, down, right = views.T
    y = MAX_SHIFT - down[:, None] + np.arange(height)
    x = np.arange(width) - right[:, None]
    x = MAX_SHIFT + np.where(mirrored[:, None] == 1, width - 1 - x, x)
    rows = np.arange(len(images))
    seen: NDArray[np.float32] = padded[rows[:, None, None], :, y[:, :, None], x[:, None, :]]
    return np.ascontiguousarray(seen.transpose(0, 3, 1, 2))
