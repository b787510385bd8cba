"""The offset and scale of each channel, taken from a fixed choice of a year's samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_SAMPLES = 64
FEWEST_SAMPLES = 8
MOST_VALUES = 2**26  # 256 MiB of float32: at 16 × 768 × 1152 the fewest samples are more than enough


@dataclass(frozen=True)
class ChannelStatistics:
    """Means and standard deviations by channel: model input = (value − offset) / scale."""

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]


def chosen_samples(num_samples: int, values_per_sample: int) -> list[int]:
    """Which samples are read: evenly spread, the same ones for every process."""
    wanted = min(MOST_SAMPLES, max(FEWEST_SAMPLES, MOST_VALUES // values_per_sample), num_samples)
    return [place * num_samples // wanted for place in range(wanted)]


def channel_statistics(read: Callable[[int], NDArray[np.float32]], samples: list[int]) -> ChannelStatistics:
    """The statistics of `samples`; a channel that never changes has a scale of 1."""
    means, squares = [], []
    for sample in samples:
        image = read(sample)
        # Pressure in Pa squared does not fit the digits of float32; heights do not either.
        means.append(image.mean((1, 2), dtype=np.float64))
        squares.append(image.var((1, 2), dtype=np.float64) + means[-1] ** 2)
    offset = np.mean(means, axis=0)
    variance = np.maximum(np.mean(squares, axis=0) - offset**2, 0)
    # Far below the digits that float32 keeps of the mean, what varies is rounding.
    scale = np.where(variance > (1e-7 * offset) ** 2, np.sqrt(variance), 1)
    return ChannelStatistics(offset.astype(np.float32), scale.astype(np.float32))
