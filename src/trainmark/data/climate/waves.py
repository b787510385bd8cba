"""Waves: a random field that travels: the sum of many plane waves around the globe."""

import numpy as np
from numpy.typing import NDArray

from trainmark.data.climate.grid import Array, Grid

NUM_WAVES = 48


class Waves:
    """Waves of random direction, phase and speed, with so many crests round the globe: mean 0, standard deviation 1.

    cos(x + y) = cos x · cos y − sin x · sin y makes their sum one product of two thin matrices.
    """

    def __init__(self, random: np.random.Generator, grid: Grid, fewest_crests: int, most_crests: int) -> None:
        crests = random.uniform(fewest_crests, most_crests, NUM_WAVES)
        direction = random.uniform(-np.pi / 2, np.pi / 2, NUM_WAVES)
        self._zonal = np.round(crests * np.cos(direction))  # whole, so that the last column meets the first
        meridional = crests * np.sin(direction)
        phase = random.uniform(0, 2 * np.pi, NUM_WAVES)
        self._speed_rad_per_day = np.radians(random.uniform(-4, 12, NUM_WAVES))
        self._longitudes = np.radians(grid.longitudes.astype(np.float64))
        size = 1 / crests
        size *= np.sqrt(2 / (size**2).sum())  # a cosine has a variance of 1/2
        angles = np.radians(grid.latitudes.astype(np.float64))[:, None] * meridional + phase
        cosine, sine = size * np.cos(angles), size * np.sin(angles)
        self._across: Array = np.concatenate([cosine, -sine], 1).astype(np.float32)
        self._across_slope: Array = np.concatenate([-meridional * sine, -meridional * cosine], 1).astype(np.float32)

    def at(self, day: float) -> Array:
        """The field at one time."""
        along, _ = self._along(day)
        field: Array = self._across @ along
        return field

    def slopes(self, day: float) -> tuple[Array, Array]:
        """How the field rises eastwards and northwards, per radian."""
        along, along_slope = self._along(day)
        return self._across @ along_slope, self._across_slope @ along

    def _along(self, day: float) -> tuple[Array, Array]:
        moved = self._longitudes[None] - self._speed_rad_per_day[:, None] * day
        zonal: NDArray[np.float64] = self._zonal[:, None]
        cosine, sine = np.cos(zonal * moved), np.sin(zonal * moved)
        along = np.concatenate([cosine, sine]).astype(np.float32)
        along_slope = np.concatenate([-zonal * sine, zonal * cosine]).astype(np.float32)
        return along, along_slope
