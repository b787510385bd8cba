"""The weather without events: zonal means of all channels, a fixed geography, and travelling waves."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.data.climate.grid import AT, NUM_CHANNELS, Array, Grid

NUM_WAVES = 48


class Waves:
    """Waves of random direction, phase and speed, with a range of crests round the globe: mean 0, standard deviation 1.

    cos(x + y) = cos x · cos y − sin x · sin y makes their sum one product of two thin matrices.
    """

    def __init__(self, random: np.random.Generator, grid: Grid, fewest_crests: int, max_crests: int) -> None:
        crests = random.uniform(fewest_crests, max_crests, NUM_WAVES)
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
        """The gradient of the field eastwards and northwards, per radian."""
        along, along_slope = self._along(day)
        return self._across @ along_slope, self._across_slope @ along

    def _along(self, day: float) -> tuple[Array, Array]:
        moved = self._longitudes[None] - self._speed_rad_per_day[:, None] * day
        zonal: NDArray[np.float64] = self._zonal[:, None]
        cosine, sine = np.cos(zonal * moved), np.sin(zonal * moved)
        along = np.concatenate([cosine, sine]).astype(np.float32)
        along_slope = np.concatenate([-zonal * sine, zonal * cosine]).astype(np.float32)
        return along, along_slope


PLANETARY_CRESTS = (1, 8)
EDDY_CRESTS = (8, 20)  # about as wide as storms on a coarse grid, and easily mistaken for weak ones

SCALE_HEIGHT_M = 8000.0  # pressure falls by a factor of e over this height
# Geostrophic wind at 45° for 1 Pa per radian: 1 / (1.2 kg/m³ · 1e-4 /s · 6.371e6 m).
WIND_OF_SLOPE = 1.31e-3
SHOWERS_M_S = 2e-7  # of rain for a share of moisture of 1, at 1 kg/m² of water


@dataclass(frozen=True)
class Unrest:
    """Standard deviations of waves."""

    pressure_pa: float
    temperature_k: float
    moisture_share: float  # of what the zonal mean has
    height_m: float

    def times(self, factor: float) -> "Unrest":
        """Waves that are `factor` times as strong."""
        return Unrest(
            factor * self.pressure_pa, factor * self.temperature_k, factor * self.moisture_share, factor * self.height_m
        )


PLANETARY = Unrest(pressure_pa=400, temperature_k=3, moisture_share=0.16, height_m=70)
EDDIES = Unrest(pressure_pa=300, temperature_k=2, moisture_share=0.2, height_m=50)


class Band:
    """Waves of one range of sizes, in pressure, temperature, moisture and the heights aloft."""

    def __init__(self, random: np.random.Generator, grid: Grid, crests: tuple[int, int], unrest: Unrest) -> None:
        self._unrest = unrest
        self._pressure, self._temperature, self._moisture, self._aloft = (
            Waves(random, grid, *crests) for _ in range(4)
        )
        # There is no geostrophic wind at the equator.
        self._turning: Array = np.tanh(grid.latitudes / np.float32(10))[:, None]

    def pressure_pa(self, day: float) -> Array:
        """The pressure anomaly."""
        return self._unrest.pressure_pa * self._pressure.at(day)

    def wind_m_s(self, day: float) -> tuple[Array, Array]:
        """Eastward and northward wind along lines of equal pressure, the low on its left in the northern hemisphere."""
        east, north = self._pressure.slopes(day)
        strength = self._unrest.pressure_pa * WIND_OF_SLOPE * self._turning
        return -strength * north, strength * east

    def temperature_k(self, day: float) -> Array:
        """The near-surface temperature anomaly."""
        return self._unrest.temperature_k * self._temperature.at(day)

    def moisture_share(self, day: float) -> Array:
        """The relative moisture anomaly."""
        return self._unrest.moisture_share * self._moisture.at(day)

    def height_m(self, day: float) -> Array:
        """The anomaly of the 200 mbar height."""
        return self._unrest.height_m * self._aloft.at(day)


class Background:
    """The weather between the events. Its geography has a separate seed, so that all years share it."""

    def __init__(
        self, grid: Grid, random: np.random.Generator, geography: np.random.Generator, eddy_strength: float
    ) -> None:
        self._latitude = grid.latitudes[:, None]
        self._size = (grid.height, grid.width)
        self._bands = (
            Band(random, grid, PLANETARY_CRESTS, PLANETARY),
            Band(random, grid, EDDY_CRESTS, EDDIES.times(eddy_strength)),
        )
        shore = Waves(geography, grid, *PLANETARY_CRESTS).at(0)
        self._land: Array = (1 / (1 + np.exp(-6 * (shore - 0.7)))).astype(np.float32)
        self._ground_m: Array = self._land * (400 + 300 * Waves(geography, grid, *PLANETARY_CRESTS).at(0)).clip(0)

    def image(self, day: float) -> Array:
        """All channels at one time, float32, channels × height × width."""
        image = np.empty((NUM_CHANNELS, *self._size), np.float32)
        self._fill_pressure_and_wind(image, day)
        self._fill_temperature_and_height(image, day)
        self._fill_water(image, day)
        return image

    def _fill_pressure_and_wind(self, image: Array, day: float) -> None:
        latitude = np.abs(self._latitude)
        subtropical_high = 900 * np.exp(-(((latitude - 32) / 12) ** 2))
        subpolar_low = 1400 * np.exp(-(((latitude - 62) / 12) ** 2))
        image[AT["PSL"]] = 101_000 + subtropical_high - subpolar_low
        image[AT["PSL"]] += sum(band.pressure_pa(day) for band in self._bands)
        image[AT["PS"]] = image[AT["PSL"]] * np.exp(-self._ground_m / SCALE_HEIGHT_M)
        trades = -7 * np.exp(-(((latitude - 12) / 10) ** 2))
        westerlies = 11 * np.exp(-(((latitude - 44) / 13) ** 2))
        east, north = zip(*(band.wind_m_s(day) for band in self._bands), strict=True)
        image[AT["U850"]] = trades + westerlies + sum(east)
        image[AT["V850"]] = sum(north)
        image[AT["UBOT"]] = 0.7 * image[AT["U850"]]
        image[AT["VBOT"]] = 0.7 * image[AT["V850"]]

    def _fill_temperature_and_height(self, image: Array, day: float) -> None:
        poleward = np.sin(np.radians(self._latitude)) ** 2
        warmer = sum(band.temperature_k(day) for band in self._bands)
        image[AT["TS"]] = 300 - 45 * poleward + warmer + 3 * self._land
        image[AT["TREFHT"]] = image[AT["TS"]] - 1.5
        image[AT["T500"]] = 268 - 30 * poleward + 0.7 * warmer
        image[AT["T200"]] = 218 + 5 * poleward - 0.5 * warmer
        higher = sum(band.height_m(day) for band in self._bands)
        image[AT["Z200"]] = 12_300 - 1200 * poleward + higher
        image[AT["Z100"]] = 16_500 - 900 * poleward + 0.8 * higher
        image[AT["ZBOT"]] = 64 / 288 * image[AT["TREFHT"]]

    def _fill_water(self, image: Array, day: float) -> None:
        latitude = self._latitude
        planetary, eddies = (band.moisture_share(day) for band in self._bands)
        wetter = np.maximum(1 + planetary + eddies, 0.1)
        image[AT["TMQ"]] = (6 + 42 * np.exp(-((latitude / 24) ** 2))) * wetter
        image[AT["QREFHT"]] = (0.002 + 0.015 * np.exp(-((latitude / 30) ** 2))) * wetter
        # Rain falls in the belt near the equator, and in showers wherever an eddy is wet.
        belt = 6e-8 * np.exp(-(((latitude - 5) / 8) ** 2)) * wetter
        showers = SHOWERS_M_S * np.maximum(eddies - 0.5 * EDDIES.moisture_share, 0) * np.sqrt(image[AT["TMQ"]])
        image[AT["PRECT"]] = belt + showers
