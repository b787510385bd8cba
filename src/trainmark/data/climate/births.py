"""How an event of each kind begins, drawn at random: where, how strong, how large and which way it goes."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainmark.data.climate.grid import Grid
from trainmark.data.climate.life import Life
from trainmark.data.climate.rivers import River
from trainmark.data.climate.storms import Storm

Event = Storm | River
Random = np.random.Generator

DEG_PER_DAY = 0.777  # of arc at 1 m/s: 86.4 km a day, 111.2 km a degree
# A coarse grid has larger events, so that a detector can still find them.
FEWEST_PIXELS_STORM = 4.0  # of a storm's radius
FEWEST_PIXELS_RIVER = 1.3  # of a river's half width


@dataclass(frozen=True)
class Kind:
    """How often a kind of event occurs, how long it lives, and how one begins."""

    share: float  # of all events at a time
    shortest_days: float
    longest_days: float
    begin: Callable[[Life, Grid, Random], Event]


def _hemisphere(random: Random) -> int:
    return 1 if random.random() < 0.5 else -1


def _tropical(life: Life, grid: Grid, random: Random, *, radius_deg: float, core: float, wind_m_s: float) -> Storm:
    """A vortex in the trades: westwards, and slowly away from the equator."""
    hemisphere = _hemisphere(random)
    latitude = hemisphere * random.uniform(9, 27)
    return Storm(
        life=life,
        is_tropical=True,
        latitude=latitude,
        longitude=random.uniform(0, 360),
        north_deg_per_day=hemisphere * random.uniform(0.2, 1.6) * DEG_PER_DAY,
        east_deg_per_day=-random.uniform(2, 6) * DEG_PER_DAY,
        radius_deg=grid.no_smaller_than(radius_deg, FEWEST_PIXELS_STORM) * random.uniform(0.9, 1.4),
        core=core,
        peak_wind_m_s=wind_m_s,
        turn_rad=0.0,
    )


def _depression(life: Life, grid: Grid, random: Random) -> Event:
    return _tropical(life, grid, random, radius_deg=3, core=0.5, wind_m_s=random.uniform(11, 17.4))


def _cyclone(life: Life, grid: Grid, random: Random) -> Event:
    return _tropical(life, grid, random, radius_deg=4.5, core=0.42, wind_m_s=random.uniform(20, 55))


def _extratropical(life: Life, grid: Grid, random: Random) -> Event:
    """A vortex in the westerlies: fast eastwards, and polewards."""
    hemisphere = _hemisphere(random)
    latitude = hemisphere * random.uniform(36, 54)
    return Storm(
        life=life,
        is_tropical=False,
        latitude=latitude,
        longitude=random.uniform(0, 360),
        north_deg_per_day=hemisphere * random.uniform(0, 3) * DEG_PER_DAY,
        east_deg_per_day=random.uniform(7, 14) * DEG_PER_DAY / math.cos(math.radians(latitude)),
        radius_deg=grid.no_smaller_than(11, FEWEST_PIXELS_STORM) * random.uniform(0.8, 1.3),
        core=0.5,
        peak_wind_m_s=random.uniform(16, 34),
        turn_rad=random.uniform(-0.5, 0.5),
    )


def _river(life: Life, grid: Grid, random: Random) -> Event:
    hemisphere = _hemisphere(random)
    return River(
        life=life,
        foot_latitude=hemisphere * random.uniform(12, 20),
        foot_longitude=random.uniform(0, 360),
        reach_deg=hemisphere * random.uniform(26, 38),
        span_deg=random.uniform(25, 60),
        bend_deg=random.uniform(-8, 8),
        half_width_deg=grid.no_smaller_than(2.2, FEWEST_PIXELS_RIVER) * random.uniform(0.8, 1.3),
        east_deg_per_day=random.uniform(3, 9) * DEG_PER_DAY,
        peak_moisture_kg_m2=random.uniform(9, 24),
        peak_wind_m_s=random.uniform(8, 20),
    )


KINDS = (
    Kind(0.26, 3, 5, _depression),
    Kind(0.24, 6, 10, _cyclone),
    Kind(0.27, 4, 7, _extratropical),
    Kind(0.23, 3, 6, _river),
)
