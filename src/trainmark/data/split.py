"""Split: one part of a dataset, in memory or stored on disk and read sample by sample."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

SplitName = Literal["train", "eval"]
Raw = bytes | memoryview  # a sample as it is stored

MAX_SAMPLES = 100_000_000  # generated at most: their bootstrap is drawn in seconds; ImageNet has 1.3 million


@dataclass(frozen=True)
class Split:
    """Samples as stored, labels, and how stored values become model inputs: (value − offset) / scale.

    Offset and scale are the same for all values, or one per channel.
    """

    samples: NDArray[Any]
    labels: NDArray[np.int64]
    offset: float | NDArray[np.float32] = 0.0
    scale: float | NDArray[np.float32] = 1.0

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.samples.shape[1:])

    @property
    def shapes(self) -> NDArray[np.int64] | None:
        """None: all samples have `sample_shape`."""
        return None

    def fingerprint(self) -> str:
        """A checksum of all samples and labels, the same on every machine."""
        digest = hashlib.sha256(np.ascontiguousarray(self.samples).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()[:16]


class StoredSplit(Protocol):
    """Samples on disk, read one by one, by any process; and how stored values become model inputs, per channel.

    `labels` are those of all samples: class numbers, or boxes padded to the same count for each sample. Images may
    differ in height and width: `shapes` then has those of each, and `sample_shape` the medians.
    """

    @property
    def labels(self) -> NDArray[Any]: ...

    @property
    def sample_shape(self) -> tuple[int, ...]: ...

    @property
    def shapes(self) -> NDArray[np.int64] | None:
        """Height and width of every sample as the model sees it; None: all have `sample_shape`."""
        ...

    @property
    def offset(self) -> NDArray[np.float32]: ...

    @property
    def scale(self) -> NDArray[np.float32]: ...

    def __len__(self) -> int: ...

    def size_bytes(self, index: int) -> int:
        """The length of `raw` for sample `index`, without reading it."""
        ...

    def raw(self, index: int) -> Raw:
        """The stored bytes of sample `index`."""
        ...

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """Decodes a sample, augmented by the seed; seed 0: not augmented."""
        ...

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """Reads and decodes sample `index`."""
        ...

    def fingerprint(self) -> str:
        """A checksum that identifies the data without reading all of them."""
        ...


def position_in_file(problem: "Problem") -> int:
    """The sort key of a file's problems: first those of the whole file, then by sample."""
    return -1 if problem.index is None else problem.index


@dataclass(frozen=True)
class Problem:
    """A problem of a dataset file, and the sample that it affects, if known."""

    file: str
    index: int | None
    what: str
    name: str | None = None  # of the sample's own file, below data.path; a skip list with it leaves the sample out
    is_note: bool = False  # worth knowing, but the sample can be used as it is
