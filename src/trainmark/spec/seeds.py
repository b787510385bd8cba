"""Independent random streams from one seed; a member's stream does not depend on the ensemble size."""

from enum import IntEnum

import numpy as np


class RandomStream(IntEnum):
    """The random streams of a member; published results depend on these numbers, which never change."""

    BOOTSTRAP = 0
    SHUFFLE = 1
    WEIGHTS = 2
    AUGMENT = 3
    SYNTHETIC = 4
    NOISE = 5
    BATCHING = 6


def generator_for(seed: int, member: int, stream: RandomStream, *more: int) -> np.random.Generator:
    """Returns the generator of one stream of a member (and, say, of one epoch)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(member, int(stream), *more)))


def weights_seed(seed: int, member: int) -> int:
    """The seed of a member's initial weights."""
    return int(generator_for(seed, member, RandomStream.WEIGHTS).integers(2**62))
