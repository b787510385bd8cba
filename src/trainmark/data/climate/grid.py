"""What an ExtremeWeather file holds, and the globe as an image: rows from south to north, columns eastward."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Channel:
    """One variable of the atmosphere model CAM5; `noise` is the standard deviation of its grid-scale noise."""

    name: str
    meaning: str
    unit: str
    noise: float


# Names, meanings and order: https://extremeweatherdataset.github.io (Racah et al., 2017). Units: CAM5's field list.
CHANNELS = (
    Channel("PRECT", "total precipitation rate", "m/s", 6e-8),
    Channel("PS", "surface pressure", "Pa", 250.0),
    Channel("PSL", "sea level pressure", "Pa", 250.0),
    Channel("QREFHT", "reference height humidity", "kg/kg", 1.5e-3),
    Channel("T200", "temperature at 200 mbar", "K", 1.5),
    Channel("T500", "temperature at 500 mbar", "K", 1.5),
    Channel("TMQ", "precipitable water of the whole column", "kg/m2", 4.0),
    Channel("TREFHT", "reference height temperature", "K", 1.5),
    Channel("TS", "surface temperature", "K", 1.5),
    Channel("U850", "zonal wind at 850 mbar", "m/s", 4.0),
    Channel("UBOT", "zonal wind of the lowest level", "m/s", 4.0),
    Channel("V850", "meridional wind at 850 mbar", "m/s", 4.0),
    Channel("VBOT", "meridional wind of the lowest level", "m/s", 4.0),
    Channel("Z100", "height of the 100 mbar surface", "m", 40.0),
    Channel("Z200", "height of the 200 mbar surface", "m", 40.0),
    Channel("ZBOT", "height of the lowest level", "m", 0.5),
)
NUM_CHANNELS = len(CHANNELS)
AT = {channel.name: place for place, channel in enumerate(CHANNELS)}

CLASSES = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
TROPICAL_DEPRESSION, TROPICAL_CYCLONE, EXTRATROPICAL_CYCLONE, ATMOSPHERIC_RIVER = range(4)

BOX_COLUMNS = ("ymin", "xmin", "ymax", "xmax", "class")
MAX_BOXES = 15  # per sample; unused rows are −1
PADDING = -1


Array = NDArray[np.float32]
Box = tuple[int, int, int, int]  # ymin, xmin, ymax, xmax in pixels; pixel i covers i … i + 1


@dataclass(frozen=True)
class Window:
    """Part of a grid around a point, and how far each of its pixels is from there, in degrees of arc."""

    rows: slice
    columns: NDArray[np.int64]
    east: Array
    north: Array

    def add(self, field: Array, change: NDArray[np.floating[Any]]) -> None:
        """Adds `change` to `field` in place, inside the window."""
        field[self.rows, self.columns] += change


@dataclass(frozen=True)
class Grid:
    """Rows from pole to pole and columns around the globe, periodic in longitude."""

    height: int
    width: int

    @property
    def degrees_per_row(self) -> float:
        """Latitude that a pixel covers."""
        return 180 / self.height

    @property
    def degrees_per_column(self) -> float:
        """Longitude that a pixel covers."""
        return 360 / self.width

    @cached_property
    def latitudes(self) -> Array:
        """Of the pixels' middles, by row."""
        return ((np.arange(self.height) + 0.5) * self.degrees_per_row - 90).astype(np.float32)

    @cached_property
    def longitudes(self) -> Array:
        """Of the pixels' middles, by column."""
        return ((np.arange(self.width) + 0.5) * self.degrees_per_column).astype(np.float32)

    def no_smaller_than(self, size_deg: float, pixels: float) -> float:
        """A size in degrees: the natural one, but at least `pixels` on a coarse grid."""
        return math.hypot(size_deg, pixels * max(self.degrees_per_row, self.degrees_per_column))

    def window(self, latitude: float, longitude: float, radius_deg: float) -> Window:
        """The pixels within `radius_deg` north, south, east and west of a point."""
        first = max(0, math.floor((latitude - radius_deg + 90) / self.degrees_per_row))
        last = min(self.height, math.ceil((latitude + radius_deg + 90) / self.degrees_per_row))
        shrinking = math.cos(math.radians(latitude))
        middle = math.floor(longitude / self.degrees_per_column)
        reach = min(math.ceil(radius_deg / shrinking / self.degrees_per_column), (self.width - 1) // 2)
        columns = np.arange(middle - reach, middle + reach + 1)
        east = ((columns + 0.5) * self.degrees_per_column - longitude) * shrinking
        north = self.latitudes[first:last] - latitude
        return Window(
            slice(first, last), columns % self.width, east[None].astype(np.float32), north[:, None].astype(np.float32)
        )

    def box(self, south: float, north: float, west: float, east: float) -> Box:
        """The pixels that hold a region; clipped at the edges of the image, but never its centre."""
        turns = 360 * math.floor((west + east) / 2 / 360)
        ymin = max(0, math.floor((south + 90) / self.degrees_per_row))
        ymax = min(self.height, math.ceil((north + 90) / self.degrees_per_row))
        xmin = max(0, math.floor((west - turns) / self.degrees_per_column))
        xmax = min(self.width, math.ceil((east - turns) / self.degrees_per_column))
        return ymin, xmin, ymax, xmax
