"""Writing a year into an HDF5 file in ExtremeWeather's layout, one sample at a time."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.data.climate.channels import BOX_COLUMNS, CHANNELS, CLASSES
from trainmark.data.climate.year import Year
from trainmark.data.climate.year_file import SIMULATED, SOURCE


def write_year(path: Path, year: Year, after_sample: Callable[[], None]) -> None:
    """`path` holds the year; under that name it is whole or not there."""
    import h5py

    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Each chunk is written once, so no cache is needed; what is in one when the disk is full ends in a crash.
        with h5py.File(unfinished, "w", rdcc_nbytes=0) as file:
            _write_samples(file, year, after_sample)
            _write_attributes(file, year)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.replace(path)
    except RuntimeError as error:  # a file that cannot be closed, most often since it could not be written
        raise error.__context__ or error from None
    finally:
        with suppress(OSError):  # most often there is none any more
            unfinished.unlink()


def _write_samples(file: Any, year: Year, after_sample: Callable[[], None]) -> None:
    # A chunk is what is read at a time: one sample.
    shape = (year.num_steps, *year.image_shape)
    images = file.create_dataset("images", shape, np.float32, chunks=(1, *year.image_shape))
    for step in range(year.num_steps):
        images[step] = year.image(step)
        after_sample()
    file.create_dataset("boxes", data=year.boxes)


def _write_attributes(file: Any, year: Year) -> None:
    file.attrs[SOURCE] = SIMULATED
    for name in ("seed", "step_hours", "events_per_sample", "noise"):
        file.attrs[name] = getattr(year.climate, name)
    file["images"].attrs["channels"] = [channel.name for channel in CHANNELS]
    file["images"].attrs["meanings"] = [channel.meaning for channel in CHANNELS]
    file["images"].attrs["units"] = [channel.unit for channel in CHANNELS]
    file["boxes"].attrs["columns"] = list(BOX_COLUMNS)
    file["boxes"].attrs["classes"] = list(CLASSES)
