"""River: an atmospheric river, a long thin filament of moisture from the tropics with wind along it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.data.climate.grid import AT, ATMOSPHERIC_RIVER, Array, Box, Grid
from trainmark.data.climate.storms import Life

FAINT_SHARE = 0.35  # of its peak, below which no box is drawn
SHARES = np.linspace(0, 1, 25)  # of the way from foot to head, where the box is measured

Line = NDArray[np.float64]  # a value for each point along the river


@dataclass(frozen=True)
class River:
    """A curve from its foot in the tropics, polewards and eastwards, `half_width_deg` wide to either side."""

    life: Life
    foot_latitude: float
    foot_longitude: float
    reach_deg: float  # northwards; negative in the south
    span_deg: float  # eastwards
    bend_deg: float
    half_width_deg: float
    east_deg_per_day: float
    peak_moisture_kg_m2: float
    peak_wind_m_s: float

    def category(self, day: float) -> int | None:
        """The class of its box; None when it is too faint for one."""
        return ATMOSPHERIC_RIVER if self.life.strength(day) >= FAINT_SHARE else None

    def box(self, day: float, grid: Grid) -> Box:
        """The pixels that hold the curve and its width."""
        latitudes = self.foot_latitude + self.reach_deg * SHARES
        sideways = self.half_width_deg / np.cos(np.radians(latitudes)) / self._steepness(SHARES, latitudes)
        longitudes = self._longitudes(SHARES, day)
        return grid.box(
            latitudes.min() - self.half_width_deg,
            latitudes.max() + self.half_width_deg,
            (longitudes - sideways).min(),
            (longitudes + sideways).max(),
        )

    def draw(self, image: Array, day: float, grid: Grid) -> None:
        """Adds the river to `image` in place."""
        share = (grid.latitudes.astype(np.float64) - self.foot_latitude) / self.reach_deg
        beyond_deg = (share - share.clip(0, 1)) * self.reach_deg
        (near,) = np.nonzero(np.abs(beyond_deg) < 2.5 * self.half_width_deg)
        rows = slice(near[0], near[-1] + 1)
        share, latitudes = share[rows].clip(0, 1), grid.latitudes[rows].astype(np.float64)
        steepness = self._steepness(share, latitudes)
        offset_deg = grid.longitudes[None] - self._longitudes(share, day)[:, None]
        across_deg = ((offset_deg + 180) % 360 - 180) * (np.cos(np.radians(latitudes)) * steepness)[:, None]
        off_curve = (across_deg**2 + beyond_deg[rows, None] ** 2) / self.half_width_deg**2
        profile = self.life.strength(day) * np.exp(-off_curve)
        wet = (self.peak_moisture_kg_m2 * (1 - 0.3 * share))[:, None] * profile
        eastwards = (self.peak_wind_m_s * np.sqrt(1 - steepness**2))[:, None] * profile
        northwards = (self.peak_wind_m_s * steepness * math.copysign(1, self.reach_deg))[:, None] * profile
        for name, change in (
            ("TMQ", wet),
            ("QREFHT", 1.2e-4 * wet),
            ("PRECT", 6e-8 * share[:, None] * profile),  # it rains out on its way
            ("U850", eastwards),
            ("V850", northwards),
            ("UBOT", 0.6 * eastwards),
            ("VBOT", 0.6 * northwards),
        ):
            image[AT[name], rows] += change.astype(np.float32)

    def _longitudes(self, share: Line, day: float) -> Line:
        moved = self.foot_longitude + self.east_deg_per_day * self.life.age_days(day)
        line: Line = moved + self.span_deg * share + self.bend_deg * np.sin(np.pi * share)
        return line

    def _steepness(self, share: Line, latitudes: Line) -> Line:
        """Sine of the angle between the curve and due east."""
        east = (self.span_deg + self.bend_deg * np.pi * np.cos(np.pi * share)) * np.cos(np.radians(latitudes))
        line: Line = abs(self.reach_deg) / np.hypot(east, self.reach_deg)
        return line
