"""StagedSplit: a stored split of which some samples are read from this node's own storage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.split import Raw, StoredSplit
from trainmark.data.staging.pack import Pack


class StagedSplit:
    """The same samples, labels and fingerprint as `split`; the bytes of those in the pack come from there."""

    def __init__(self, split: StoredSplit, pack: Pack) -> None:
        self._split = split
        self._pack = pack

    @property
    def labels(self) -> NDArray[Any]:
        """Those of all samples."""
        return self._split.labels

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self._split.sample_shape

    @property
    def offset(self) -> NDArray[np.float32]:
        """What is subtracted from each channel."""
        return self._split.offset

    @property
    def scale(self) -> NDArray[np.float32]:
        """What each channel is then divided by."""
        return self._split.scale

    def __len__(self) -> int:
        return len(self._split)

    def size_bytes(self, index: int) -> int:
        """How many bytes `raw` gives for a sample."""
        return self._split.size_bytes(index)

    def raw(self, index: int) -> Raw:
        """The bytes of a sample: from the pack, or from where all of them lie."""
        return self._pack.read(index) if index in self._pack else self._split.raw(index)

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """The sample of those bytes."""
        return self._split.decode(raw, index, augmentation, seed)

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """Sample `index`: its bytes, decoded."""
        return self.decode(self.raw(index), index, augmentation, seed)

    def fingerprint(self) -> str:
        """The original's: the data are the same."""
        return self._split.fingerprint()
