"""How each training image of an epoch is changed at random: pure functions, the same for any number of workers."""

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.seeds import Purpose, stream

MOST_SHIFT = 4  # pixels, up to which an image moves; what leaves the frame is cut off, what enters is background

# A row per draw. flip-shift: whether mirrored (0 or 1), pixels down, pixels to the right; else a seed. 0: unchanged.
Views = NDArray[np.int64]


def epoch_views(kind: str, num_draws: int, seed: int, member: int, epoch: int) -> Views | None:
    """How each draw of an epoch is seen, in the order of the epoch; None without augmentation."""
    if kind == "none":
        return None
    random = stream(seed, member, Purpose.AUGMENT, epoch)
    if kind != "flip-shift":  # whoever reads a sample from disk draws its change from a seed
        return random.integers(1, 2**62, num_draws)
    views = np.empty((num_draws, 3), np.int64)
    views[:, 0] = random.integers(0, 2, num_draws)
    views[:, 1:] = random.integers(-MOST_SHIFT, MOST_SHIFT + 1, (num_draws, 2))
    return views


def unchanged(views: Views) -> Views:
    """Views that leave every image as it is."""
    return np.zeros_like(views)
