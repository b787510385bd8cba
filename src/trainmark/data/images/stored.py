"""StoredImages: a split whose images are decoded from their files as they are read, and what is wrong with them."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, decode_fully, decode_view
from trainmark.data.images.files import HOW_TO_FIND_ALL, ImageFiles, list_images, listing_fault, reason_of
from trainmark.data.images.views import View, evaluation_view, random_view
from trainmark.data.split import Problem, Raw
from trainmark.spec.errors import DataError

# Of ImageNet's training images, red, green and blue, as values of 0 … 255: 255 × (0.485, 0.456, 0.406) and
# 255 × (0.229, 0.224, 0.225), which all published recipes use.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
DEVIATION = np.array([58.395, 57.12, 57.375], np.float32)


@dataclass(frozen=True)
class StoredImages:
    """Square colour images of `image_size` pixels; for evaluation the middle `centre_share` of the shorter side."""

    files: ImageFiles
    image_size: int
    centre_share: float

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class number of every image."""
        return self.files.labels

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return (3, self.image_size, self.image_size)

    @property
    def offset(self) -> NDArray[np.float32]:
        """What is subtracted from each channel."""
        return MEAN

    @property
    def scale(self) -> NDArray[np.float32]:
        """What each channel is then divided by."""
        return DEVIATION

    def __len__(self) -> int:
        return len(self.files)

    def size_bytes(self, index: int) -> int:
        """The size of an image's file."""
        return int(self.files.sizes_bytes[index])

    def raw(self, index: int) -> bytes:
        """The content of an image's file."""
        try:
            return self.files.path(index).read_bytes()
        except OSError as error:
            raise self._unreadable(index, reason_of(error)) from error

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """The image in those bytes, changed at random as the augmentation and the seed say; seed 0: unchanged."""
        try:
            return decode_view(raw, self.image_size, self._view_chooser(index, augmentation, seed))
        except UnreadableImageError as error:
            raise self._unreadable(index, error) from error

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Image `index`: its file's content, decoded."""
        return self.decode(self.raw(index), index, augmentation, seed)

    def fingerprint(self) -> str:
        """A checksum of all names, sizes and labels, and of the bytes of some files."""
        return self.files.fingerprint()

    def _unreadable(self, index: int, reason: object) -> DataError:
        return DataError(f"{self.files.path(index)} (sample {index}) cannot be read: {reason}. {HOW_TO_FIND_ALL}")

    def _view_chooser(self, index: int, augmentation: str, seed: int) -> "partial[View]":
        if augmentation == "none" or seed == 0:
            return partial(evaluation_view, share=self.centre_share)
        return partial(random_view, augmentation, random=np.random.default_rng((seed, index)))


UNDER_WAY = 1024  # files that are handed to the threads at a time: a million at once would be a million records


def folder_problems(folders: Iterable[Path]) -> Iterator[Problem]:
    """A problem for each folder that cannot be listed or holds no image."""
    for folder in folders:
        fault = listing_fault(folder) or (None if list_images(folder) else "holds no images")
        if fault is not None:
            yield Problem(str(folder), None, fault)


def image_problems(files: ImageFiles) -> Iterator[Problem]:
    """A problem for each file that cannot be decoded whole, in the order of the files."""
    # Threads are enough: Pillow lets go of the interpreter while it decodes.
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads:
        for start in range(0, len(files), UNDER_WAY):
            some = range(start, min(start + UNDER_WAY, len(files)))
            for index, reason in zip(some, threads.map(lambda index: _reason(files, index), some), strict=True):
                if reason is not None:
                    yield Problem(str(files.path(index)), index, reason)


def _reason(files: ImageFiles, index: int) -> str | None:
    try:
        decode_fully(files.path(index))
    except UnreadableImageError as error:
        return f"cannot be decoded: {error}"
    return None
