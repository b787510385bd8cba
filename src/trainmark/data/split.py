"""Split: the samples and labels of one part of a dataset, in memory."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SplitName = Literal["train", "eval"]


@dataclass(frozen=True)
class Split:
    """Samples as stored, labels, and how stored values become model inputs: (value − offset) / scale."""

    samples: NDArray[Any]
    labels: NDArray[np.int64]
    offset: float = 0.0
    scale: float = 1.0

    def fingerprint(self) -> str:
        """A checksum of every sample and label: the same data give the same one anywhere."""
        digest = hashlib.sha256(np.ascontiguousarray(self.samples).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()[:16]
