"""Selection: which samples of which data are wanted, and so under which name they lie once they are staged."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORMAT = 1  # of a pack's files; another one is another name


@dataclass(frozen=True)
class Selection:
    """The data by name and fingerprint, and of each sample whether it is needed."""

    dataset: str
    fingerprint: str
    needed: NDArray[np.bool_]

    @property
    def num_needed(self) -> int:
        """How many samples are needed."""
        return int(np.count_nonzero(self.needed))

    @property
    def pack_name(self) -> str:
        """The same for the same samples of the same data, on any node and in any run."""
        key = f"{FORMAT} {self.fingerprint} {len(self.needed)} ".encode() + np.packbits(self.needed).tobytes()
        plain = self.dataset.rpartition(":")[2]  # a plug-in's own code is named by its module, too
        return f"{plain}-{hashlib.blake2b(key, digest_size=8).hexdigest()}"

    def of_all(self) -> "Selection":
        """All samples of the same data."""
        return Selection(self.dataset, self.fingerprint, np.ones_like(self.needed))
