"""Pixels of the passes of a run on images of unlike shapes, from the batches that it is going to train."""

from typing import NamedTuple

import numpy as np

from trainmark.data.batching import Shapes
from trainmark.data.bootstrap import sample_counts
from trainmark.data.epochs import replica_epoch
from trainmark.spec.config import RunConfig
from trainmark.spec.length import total_steps

MAX_EPOCHS = 2  # that are looked at
UNSEEN = 1.5  # most pixels of a pass beyond them over those of the largest one


class PassSizes(NamedTuple):
    """Pixels with padding: of the largest pass, at least and at most, and of a sample in the mean."""

    largest_px: tuple[int, float]
    mean_sample_px: float


def pass_sizes(config: RunConfig, shapes: Shapes) -> PassSizes:
    """Returns the sizes of the first member's passes: those of its whole training, or of its first epochs."""
    counts = sample_counts(config.ensemble.bootstrap, len(shapes), config.seed, 0)
    largest, pixels, samples, steps, wanted = 0, 0, 0, 0, None
    for epoch in range(MAX_EPOCHS):
        found = replica_epoch(config, counts, shapes, 0, epoch, 0)
        wanted = total_steps(config.train, len(found))
        loads = found.part(slice(None if wanted is None else wanted - steps)).loads
        assert loads is not None
        largest = max(largest, int(loads.passes[:, 1:].prod(axis=1).max()))
        pixels, samples = pixels + int(loads.total_px.sum()), samples + int(np.sum(loads.samples))
        steps += len(loads.samples)
        if wanted is not None and steps >= wanted:
            break
    is_whole = wanted is not None and steps >= wanted and config.ensemble.members == 1
    return PassSizes((largest, largest if is_whole else UNSEEN * largest), pixels / samples)
