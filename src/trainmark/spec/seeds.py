"""Independent random streams from one seed; a member's stream does not depend on the ensemble size."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The purpose of a stream; the numbers affect every published result and must not change."""

    BOOTSTRAP = 0
    SHUFFLE = 1
    WEIGHTS = 2
    AUGMENT = 3
    SYNTHETIC = 4
    NOISE = 5


def stream(seed: int, member: int, purpose: Purpose, *more: int) -> np.random.Generator:
    """Returns the random stream of one member for one purpose (and, for example, one epoch)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(member, int(purpose), *more)))


def weights_seed(seed: int, member: int) -> int:
    """Returns the seed of a member's initial weights."""
    return int(stream(seed, member, Purpose.WEIGHTS).integers(2**62))
