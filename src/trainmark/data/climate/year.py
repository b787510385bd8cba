"""Year: one simulated year, from its seed alone: the weather of any of its steps, and the boxes around its events."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainmark.data.climate.events import Calendar, Cast
from trainmark.data.climate.fields import Background
from trainmark.data.climate.grid import AT, CHANNELS, NUM_CHANNELS, Array, Grid

GEOGRAPHY, WAVES, EVENTS, NOISE = range(4)  # random streams


@dataclass(frozen=True)
class Climate:
    """What all years of a dataset share."""

    height: int
    width: int
    seed: int
    step_hours: float
    events_per_sample: float
    noise: float  # strength of eddies that look like weak events, and of each channel's noise at every pixel


@dataclass(frozen=True)
class Year:
    """`num_steps` samples of the year called `name`; a year of the same name, climate and number is the same one."""

    climate: Climate
    name: str
    number: tuple[int, int]  # split and year: the seed of all that differs between years
    num_steps: int

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return NUM_CHANNELS, self.climate.height, self.climate.width

    @cached_property
    def boxes(self) -> Array:
        """The boxes of all steps, steps × 15 × 5."""
        return self._cast.boxes()

    def image(self, step: int) -> Array:
        """The weather of a step, channels × height × width; any step can be computed independently."""
        day = self._calendar.day(step)
        image = self._background.image(day)
        for event in self._cast.present(step):
            event.draw(image, day, self._grid)
        random = self._random(NOISE, step)
        for values, channel in zip(image, CHANNELS, strict=True):
            values += np.float32(self.climate.noise * channel.noise) * random.standard_normal(
                values.shape, dtype=np.float32
            )
        for name in ("PRECT", "QREFHT", "TMQ"):
            np.maximum(image[AT[name]], 0, out=image[AT[name]])  # noise must not make water negative
        return image

    @property
    def _grid(self) -> Grid:
        return Grid(self.climate.height, self.climate.width)

    @property
    def _calendar(self) -> Calendar:
        return Calendar(self.num_steps, self.climate.step_hours)

    @cached_property
    def _cast(self) -> Cast:
        return Cast(self._grid, self._calendar, self.climate.events_per_sample, self._random(EVENTS))

    @cached_property
    def _background(self) -> Background:
        geography = np.random.default_rng([self.climate.seed, GEOGRAPHY])
        return Background(self._grid, self._random(WAVES), geography, eddy_strength=self.climate.noise)

    def _random(self, purpose: int, *more: int) -> np.random.Generator:
        return np.random.default_rng([self.climate.seed, purpose, *self.number, *more])
