"""StoredImages: a split of image files, decoded when they are read, and checks of such files."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, decode_fully, decode_view
from trainmark.data.images.files import HOW_TO_FIND_ALL, ImageFiles, list_images, listing_fault, open_regular, reason_of
from trainmark.data.images.views import View, evaluation_view, random_view
from trainmark.data.split import Problem, Raw
from trainmark.spec.errors import DataError

# Of ImageNet's training images: red, green and blue, from 0 to 255: 255 × (0.485, 0.456, 0.406) and
# 255 × (0.229, 0.224, 0.225), which all published recipes use.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
DEVIATION = np.array([58.395, 57.12, 57.375], np.float32)


@dataclass(frozen=True)
class StoredImages:
    """Square colour images of `image_size` pixels; for evaluation, the central `centre_share` of the shorter side."""

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
    def shapes(self) -> NDArray[np.int64] | None:
        """None: all images have `sample_shape`."""
        return None

    @property
    def offset(self) -> NDArray[np.float32]:
        """The mean of each channel."""
        return MEAN

    @property
    def scale(self) -> NDArray[np.float32]:
        """The standard deviation of each channel."""
        return DEVIATION

    def __len__(self) -> int:
        return len(self.files)

    def size_bytes(self, index: int) -> int:
        """The size of an image's file."""
        return int(self.files.sizes_bytes[index])

    def raw(self, index: int) -> bytes:
        """The content of an image's file."""
        try:
            with open_regular(self.files.path(index)) as file:
                return file.read()
        except OSError as error:
            raise self._unreadable(index, reason_of(error)) from error

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Decodes an image, augmented by the seed; seed 0: not augmented."""
        try:
            return decode_view(raw, self.image_size, self._view_chooser(index, augmentation, seed))
        except UnreadableImageError as error:
            raise self._unreadable(index, error) from error

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Reads and decodes image `index`."""
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


IN_FLIGHT = 1024  # files submitted to the threads at a time, to bound memory


def folder_problems(folders: Iterable[Path]) -> Iterator[Problem]:
    """Yields a problem for each folder that cannot be listed or has no images."""
    for folder in folders:
        fault = listing_fault(folder) or (None if list_images(folder) else "has no images")
        if fault is not None:
            yield Problem(str(folder), None, fault)


def image_problems(files: ImageFiles) -> Iterator[Problem]:
    """Yields a problem for each file that cannot be decoded, in file order."""

    def inspect(index: int) -> list[Finding]:
        try:
            decode_fully(files.path(index))
        except UnreadableImageError as error:
            return [Finding(f"cannot be decoded: {error}")]
        return []

    return inspected(files, inspect)


class Finding(NamedTuple):
    """What is wrong with a file, or worth noting."""

    what: str
    is_note: bool = False


def inspected(files: ImageFiles, inspect: Callable[[int], list[Finding]]) -> Iterator[Problem]:
    """Yields what `inspect` finds of each file, in file order."""
    # Threads suffice: decoders release the GIL.
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads:
        for start in range(0, len(files), IN_FLIGHT):
            some = range(start, min(start + IN_FLIGHT, len(files)))
            for index, findings in zip(some, threads.map(inspect, some), strict=True):
                for what, is_note in findings:
                    yield Problem(str(files.path(index)), index, what, files.name(index), is_note)
