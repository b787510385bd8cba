"""Years: a split made of the files of several years, one after another."""

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from trainmark.data.climate.grid import Array
from trainmark.data.climate.statistics import ChannelStatistics, channel_statistics, chosen_samples
from trainmark.data.climate.year_file import YearFile
from trainmark.data.split import Raw
from trainmark.spec.errors import DataError

NUM_FINGERPRINTED = 4  # samples; a real one has 54 MiB


class Years:
    """The samples of several files; the normalisation is that of `reference`, a file of train."""

    def __init__(self, files: Sequence[YearFile], reference: YearFile) -> None:
        if len({file.image_shape for file in (*files, reference)}) > 1:
            listed = ", ".join(f"{file.path} {file.image_shape}" for file in (reference, *files))
            raise DataError(f"Images of one dataset differ in shape: {listed}. Keep years of one shape together.")
        self._files = files
        self._reference = reference
        self._ends = np.cumsum([file.num_steps for file in files])
        self.labels: Array = np.concatenate([file.boxes for file in files])
        self.sample_shape: tuple[int, ...] = reference.image_shape

    def __len__(self) -> int:
        return int(self._ends[-1])

    def size_bytes(self, index: int) -> int:
        """The size of a sample's values; all are alike."""
        return self._reference.image_bytes

    def raw(self, index: int) -> memoryview:
        """The float32 values of sample `index`, as bytes."""
        file, step = self._place(index)
        return file.raw(step)

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> Array:
        """The sample of those bytes, channels × height × width; there is no augmentation of weather."""
        assert augmentation == "none", augmentation
        file, step = self._place(index)
        return file.decode(raw, step)

    def read(self, index: int, augmentation: str, seed: int) -> Array:
        """Sample `index` as it is stored, channels × height × width."""
        return self.decode(self.raw(index), index, augmentation, seed)

    @property
    def offset(self) -> Array:
        """Mean of each channel."""
        return self._statistics.offset

    @property
    def scale(self) -> Array:
        """Standard deviation of each channel."""
        return self._statistics.scale

    def fingerprint(self) -> str:
        """A checksum of the files' names and sizes, of all boxes, and of a few samples spread over the split."""
        digest = hashlib.sha256(repr((self.sample_shape, len(self))).encode())
        for file in self._files:
            digest.update(f"{file.path.name} {file.path.stat().st_size}\n".encode())
        digest.update(np.ascontiguousarray(self.labels).data)
        for place in range(NUM_FINGERPRINTED):
            digest.update(self.read(place * len(self) // NUM_FINGERPRINTED, "none", 0).data)
        return digest.hexdigest()[:16]

    def _place(self, index: int) -> tuple[YearFile, int]:
        """The file that holds a sample, and its number there."""
        assert 0 <= index < len(self), index
        place = int(np.searchsorted(self._ends, index, side="right"))
        return self._files[place], index - (int(self._ends[place - 1]) if place else 0)

    @cached_property
    def _statistics(self) -> ChannelStatistics:
        samples = chosen_samples(self._reference.num_steps, int(np.prod(self.sample_shape)))
        return channel_statistics(self._reference.image, samples)
