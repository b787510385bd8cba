"""Storm: a vortex that forms, drifts, deepens and decays, tropical (warm core) or not; lifetime of an event."""

import math
from dataclasses import dataclass

import numpy as np

from trainmark.data.climate.grid import (
    AT,
    EXTRATROPICAL_CYCLONE,
    TROPICAL_CYCLONE,
    TROPICAL_DEPRESSION,
    Array,
    Box,
    Grid,
    Window,
)


@dataclass(frozen=True)
class Life:
    """A span of days; strength rises from 0 to 1 and falls again, fast at both ends."""

    birth_day: float
    num_days: float

    def age_days(self, day: float) -> float:
        """Days since birth; negative before it."""
        return day - self.birth_day

    def strength(self, day: float) -> float:
        """Share of the peak, 0 … 1."""
        share = self.age_days(day) / self.num_days
        return math.sin(math.pi * share) ** 0.6 if 0 < share < 1 else 0.0


NAMED_STORM_M_S = 17.5  # 34 knots: from this wind on a tropical depression is a tropical storm
FAINT_TROPICAL_M_S = 8.0
FAINT_EXTRATROPICAL_SHARE = 0.35  # of its peak, below which no box is drawn
WINDOW_RADII = 2.2  # beyond, a storm has no visible effect


@dataclass(frozen=True)
class Storm:
    """One vortex. Its box reaches `radius_deg` from its middle; wind is strongest at `core` of that radius."""

    life: Life
    is_tropical: bool
    latitude: float
    longitude: float
    north_deg_per_day: float
    east_deg_per_day: float
    radius_deg: float
    core: float
    peak_wind_m_s: float
    turn_rad: float

    def category(self, day: float) -> int | None:
        """The class that a box around it has now; None when it is too faint for one."""
        wind_m_s = self.wind_m_s(day)
        if self.is_tropical:
            if wind_m_s < FAINT_TROPICAL_M_S:
                return None
            return TROPICAL_CYCLONE if wind_m_s >= NAMED_STORM_M_S else TROPICAL_DEPRESSION
        return EXTRATROPICAL_CYCLONE if self.life.strength(day) >= FAINT_EXTRATROPICAL_SHARE else None

    def wind_m_s(self, day: float) -> float:
        """The strongest wind around it now."""
        return self.peak_wind_m_s * self.life.strength(day)

    def middle(self, day: float) -> tuple[float, float]:
        """Latitude and longitude of its middle now."""
        age = self.life.age_days(day)
        latitude = self.latitude + self.north_deg_per_day * age
        return min(72.0, max(-72.0, latitude)), (self.longitude + self.east_deg_per_day * age) % 360

    def radius_now_deg(self, day: float) -> float:
        """How far its box reaches now: it widens as it strengthens."""
        return self.radius_deg * (0.85 + 0.15 * self.life.strength(day))

    def box(self, day: float, grid: Grid) -> Box:
        """The pixels within its radius."""
        (latitude, longitude), radius = self.middle(day), self.radius_now_deg(day)
        sideways = radius / math.cos(math.radians(latitude))
        return grid.box(latitude - radius, latitude + radius, longitude - sideways, longitude + sideways)

    def draw(self, image: Array, day: float, grid: Grid) -> None:
        """Adds the storm to `image` in place."""
        latitude, longitude = self.middle(day)
        radius, wind_m_s = self.radius_now_deg(day), self.wind_m_s(day)
        window = grid.window(latitude, longitude, WINDOW_RADII * radius)
        east, poleward = window.east / radius, math.copysign(1, latitude) * window.north / radius
        distance = np.hypot(east, poleward)
        core = np.exp(-0.5 * (distance / self.core) ** 2)
        depth_pa = depth_of_wind_pa(wind_m_s)
        window.add(image[AT["PSL"]], -depth_pa * core)
        window.add(image[AT["PS"]], -depth_pa * core)
        _draw_rotation(image, window, wind_m_s * distance / self.core * core * math.exp(0.5), latitude)
        if self.is_tropical:
            _draw_warm_core(image, window, depth_pa / 5000, core, distance / self.core)
        else:
            angle = np.arctan2(poleward, east) - self.turn_rad
            _draw_cold_core(image, window, depth_pa / 3000, core, distance, angle)


def depth_of_wind_pa(wind_m_s: float) -> float:
    """The central pressure drop of a vortex with this wind."""
    # Atkinson and Holliday (1977): knots = 6.7 · (1010 − pressure in hPa)^0.644. One knot is 0.5144 m/s.
    return float(100 * (wind_m_s / 0.5144 / 6.7) ** (1 / 0.644))


def _draw_rotation(image: Array, window: Window, speed: Array, latitude: float) -> None:
    """Wind around the low: counter-clockwise in the north, clockwise in the south."""
    distance = np.maximum(np.hypot(window.east, window.north), 1e-6)
    turning = math.copysign(1, latitude) * speed / distance
    for level, share in (("850", 1.0), ("BOT", 0.75)):
        window.add(image[AT[f"U{level}"]], -share * turning * window.north)
        window.add(image[AT[f"V{level}"]], share * turning * window.east)


def _draw_warm_core(image: Array, window: Window, strength: float, core: Array, distance: Array) -> None:
    """Warm aloft, wet and rainy around the eye."""
    wet = math.sqrt(strength)
    wall = distance**2 * core * math.e / 2
    for name, change in (
        ("T500", 6 * strength * core),
        ("T200", 8 * strength * core),
        ("Z200", 120 * strength * core),
        ("Z100", 60 * strength * core),
        ("TMQ", 14 * wet * core),
        ("QREFHT", 0.003 * wet * core),
        ("PRECT", 2.5e-7 * wet * wall),
        ("TS", -1.5 * strength * core),  # the storm stirs up cold water
    ):
        window.add(image[AT[name]], change)


def _draw_cold_core(image: Array, window: Window, strength: float, core: Array, distance: Array, angle: Array) -> None:
    """Cold aloft, warm air ahead and cold air behind, and a comma of moisture that curls around the middle."""
    # The comma starts poleward of the middle, passes east of it and trails towards the equator.
    along = np.radians(150 - 260 * np.minimum(distance, 1.2))
    off = (angle - along + np.pi) % (2 * np.pi) - np.pi
    comma = np.exp(-((off / 0.6) ** 2)) * distance * np.exp(1 - distance**2)
    ahead = np.cos(angle) * distance * np.exp(-(distance**2))
    for name, change in (
        ("T500", strength * (6 * ahead - 7 * core)),
        ("T200", 5 * strength * core),  # the stratosphere reaches down
        ("TREFHT", strength * (9 * ahead - 2 * core)),
        ("TS", strength * (6 * ahead - 1 * core)),
        ("Z200", -180 * strength * core),
        ("Z100", -80 * strength * core),
        ("TMQ", 10 * strength * comma),
        ("QREFHT", 0.003 * strength * comma),
        ("PRECT", 8e-8 * strength * comma),
    ):
        window.add(image[AT[name]], change)
