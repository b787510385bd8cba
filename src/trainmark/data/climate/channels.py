"""What an ExtremeWeather file holds: its channels in the order they are stored, its classes, and the form of a box."""

from dataclasses import dataclass


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
MOST_BOXES = 15  # of one sample; rows that are not needed are −1 throughout
PADDING = -1
