"""The events of a simulated year: birth, life and decay, without overlap."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainmark.data.climate.grid import MAX_BOXES, PADDING, Array, Box, Grid
from trainmark.data.climate.rivers import River
from trainmark.data.climate.storms import Life, Storm

Event = Storm | River
Random = np.random.Generator

DEG_PER_DAY = 0.777  # of arc at 1 m/s: 86.4 km a day, 111.2 km a degree
# On a coarse grid events are larger, so that a detector can find them.
FEWEST_PIXELS_STORM = 4.0  # of a storm's radius
FEWEST_PIXELS_RIVER = 1.3  # of a river's half width


@dataclass(frozen=True)
class Kind:
    """Frequency, lifetime and birth of one kind of event."""

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


MAX_OVERLAP = 0.1  # share of the smaller of two boxes that the other may cover
MAX_TRIES = 8  # to place an event; a crowded year has fewer


@dataclass(frozen=True)
class Calendar:
    """The times at which a year is sampled."""

    num_steps: int
    step_hours: float

    def day(self, step: int) -> float:
        """Days since the first sample."""
        return step * self.step_hours / 24

    def steps(self, life: Life) -> range:
        """The steps during a lifetime."""
        per_day = 24 / self.step_hours
        first = math.floor(life.birth_day * per_day) + 1
        end = math.ceil((life.birth_day + life.num_days) * per_day)
        return range(max(0, first), min(self.num_steps, end))


class Cast:
    """The events of a year, and their boxes at each step."""

    def __init__(self, grid: Grid, calendar: Calendar, events_per_sample: float, random: np.random.Generator) -> None:
        self._grid, self._calendar = grid, calendar
        self._boxes: list[list[tuple[Box, int | None]]] = [[] for _ in range(calendar.num_steps)]
        self._present: list[list[Event]] = [[] for _ in range(calendar.num_steps)]
        for kind, life in _lives(calendar, events_per_sample, random):
            any(self._admit(kind.begin(life, grid, random)) for _ in range(MAX_TRIES))

    def present(self, step: int) -> list[Event]:
        """The events at a step, including those too faint for a box."""
        return self._present[step]

    def boxes(self) -> Array:
        """The boxes of all steps, steps × 15 × 5, unused rows −1."""
        boxes = np.full((self._calendar.num_steps, MAX_BOXES, 5), PADDING, np.float32)
        for step, all_boxes in enumerate(self._boxes):
            seen = [(*box, category) for box, category in all_boxes if category is not None]
            for row, values in enumerate(seen):
                boxes[step, row] = values
        return boxes

    def _admit(self, event: Event) -> bool:
        """Whether the event was placed: no overlap with another one and no full sample during its lifetime."""
        steps = self._calendar.steps(event.life)
        boxes = [event.box(self._calendar.day(step), self._grid) for step in steps]
        for step, box in zip(steps, boxes, strict=True):
            others = self._boxes[step]
            if len(others) == MAX_BOXES or any(_overlap(box, other) > MAX_OVERLAP for other, _ in others):
                return False
        for step, box in zip(steps, boxes, strict=True):
            self._present[step].append(event)
            self._boxes[step].append((box, event.category(self._calendar.day(step))))
        return True


def _lives(calendar: Calendar, events_per_sample: float, random: np.random.Generator) -> list[tuple[Kind, Life]]:
    """When events of each kind are born, in order; those born before the first sample fill it."""
    lives: list[tuple[Kind, Life]] = []
    last_day = calendar.day(calendar.num_steps)
    for kind in KINDS:
        mean_days = (kind.shortest_days + kind.longest_days) / 2
        births = random.poisson(events_per_sample * kind.share * (last_day + kind.longest_days) / mean_days)
        for _ in range(births):
            birth_day = float(random.uniform(-kind.longest_days, last_day))
            lives.append((kind, Life(birth_day, float(random.uniform(kind.shortest_days, kind.longest_days)))))
    return sorted(lives, key=lambda born: born[1].birth_day)


def _overlap(one: Box, other: Box) -> float:
    """The shared area of two boxes, as a fraction of the smaller one."""
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    return height * width / min((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
