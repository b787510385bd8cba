"""Cast: the events of a simulated year, drawn at random, never on top of one another, and the boxes around them."""

import math
from dataclasses import dataclass

import numpy as np

from trainmark.data.climate.births import KINDS, Event, Kind
from trainmark.data.climate.channels import MOST_BOXES, PADDING
from trainmark.data.climate.grid import Array, Box, Grid
from trainmark.data.climate.life import Life

MOST_OVERLAP = 0.1  # share of the smaller of two boxes that the other may cover
MOST_TRIES = 8  # to find an event a free place; a year that is too full has fewer


@dataclass(frozen=True)
class Calendar:
    """The times at which a year is sampled."""

    num_steps: int
    step_hours: float

    def day(self, step: int) -> float:
        """Days since the first sample."""
        return step * self.step_hours / 24

    def steps(self, life: Life) -> range:
        """The steps at which something lives."""
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
            any(self._admit(kind.begin(life, grid, random)) for _ in range(MOST_TRIES))

    def present(self, step: int) -> list[Event]:
        """The events at a step, those too faint for a box as well."""
        return self._present[step]

    def boxes(self) -> Array:
        """The boxes of all steps, steps × 15 × 5, rows that are not needed −1 throughout."""
        boxes = np.full((self._calendar.num_steps, MOST_BOXES, 5), PADDING, np.float32)
        for step, all_boxes in enumerate(self._boxes):
            seen = [(*box, category) for box, category in all_boxes if category is not None]
            for row, values in enumerate(seen):
                boxes[step, row] = values
        return boxes

    def _admit(self, event: Event) -> bool:
        """Whether the event found its place: none of another event, and no full sample, at any step of its life."""
        steps = self._calendar.steps(event.life)
        boxes = [event.box(self._calendar.day(step), self._grid) for step in steps]
        for step, box in zip(steps, boxes, strict=True):
            others = self._boxes[step]
            if len(others) == MOST_BOXES or any(_overlap(box, other) > MOST_OVERLAP for other, _ in others):
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
    """Area that two boxes share, of the smaller one's."""
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    return height * width / min((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
