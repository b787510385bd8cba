"""YearFile: a year of samples in an HDF5 file in ExtremeWeather's layout, read and written sample by sample."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.data.climate.grid import BOX_COLUMNS, CHANNELS, CLASSES, MAX_BOXES, NUM_CHANNELS, Array
from trainmark.data.climate.year import Year
from trainmark.data.split import Raw
from trainmark.spec.errors import DataError

SOURCE = "source"  # the attribute that says where a file comes from
SIMULATED = "simulated by trainmark: neither an observation nor a climate model's output"

# What h5py raises for files that are damaged, by where the damage is.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError)


class YearFile:
    """One file. Its boxes are read at once; its images one at a time, through a handle of the reading process's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process: int | None = None
        self._file: Any = None
        with open_year(path) as file:
            num_steps, *shape = _shape_of_images(file, path)
            self.num_steps: int = num_steps
            self.image_shape: tuple[int, int, int] = (shape[0], shape[1], shape[2])
            self.boxes: Array = _boxes(file, path, num_steps)

    @property
    def image_bytes(self) -> int:
        """The size of the weather of a step."""
        return math.prod(self.image_shape) * np.dtype(np.float32).itemsize

    def raw(self, step: int) -> memoryview:
        """The float32 values of a step, as bytes."""
        image = np.empty(self.image_shape, np.float32)
        try:
            self._opened()["images"].read_direct(image, np.s_[step])
        except DAMAGE as error:
            raise _damaged(f"{self.path}, sample {step}: cannot be read: {one_line(error)}") from error
        return image.data.cast("B")

    def decode(self, raw: Raw, step: int) -> Array:
        """The weather of a step, channels × height × width, from its bytes; damaged samples are refused."""
        image = np.frombuffer(raw, np.float32).reshape(self.image_shape)
        # One sum costs less than a look at each value, and is finite only where all values are.
        if not np.isfinite(image.sum()) and not np.isfinite(image).all():
            raise _damaged(f"{self.path}, sample {step}: it holds NaN or infinite values")
        return image

    def image(self, step: int) -> Array:
        """The weather of a step, read and decoded."""
        return self.decode(self.raw(step), step)

    def _opened(self) -> Any:
        """The file as this process opened it."""
        if self._process != os.getpid():
            # After a fork HDF5 would go on reading through the parent's descriptor, whose position both would move.
            if self._file is not None:
                self._file.close()
            self._file, self._process = open_year(self.path), os.getpid()
        return self._file

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None, "_file": None}


def open_year(path: Path) -> Any:
    """The file, open for reading."""
    import h5py

    try:
        return h5py.File(path, "r")
    except DAMAGE as error:
        raise _damaged(f"{path} cannot be read: {one_line(error)}") from error


def count_samples(path: Path) -> int:
    """How many samples a file has; its shapes alone are read."""
    with open_year(path) as file:
        return _shape_of_images(file, path)[0]


def was_simulated(path: Path) -> bool:
    """Whether the file says that trainmark made it."""
    with open_year(path) as file:
        return str(file.attrs.get(SOURCE, "")) == SIMULATED


def one_line(error: BaseException) -> str:
    """An error's text without its line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


def _shape_of_images(file: Any, path: Path) -> tuple[int, ...]:
    try:
        shape = tuple(int(size) for size in file["images"].shape)
    except DAMAGE as error:
        raise _damaged(f"{path} has no readable dataset 'images': {one_line(error)}") from error
    if len(shape) != 4 or shape[1] != NUM_CHANNELS:
        raise _damaged(f"{path}: its images are {shape}, not steps × {NUM_CHANNELS} × height × width")
    return shape


def _boxes(file: Any, path: Path, num_steps: int) -> Array:
    """All boxes; those of no known class are refused, a model could learn nothing from them."""
    try:
        boxes: Array = np.asarray(file["boxes"][()], np.float32)
    except DAMAGE as error:
        raise _damaged(f"{path} has no readable dataset 'boxes': {one_line(error)}") from error
    wanted = (num_steps, MAX_BOXES, len(BOX_COLUMNS))
    if boxes.shape != wanted:
        raise _damaged(f"{path}: its boxes are {boxes.shape}, but its images need {wanted}")
    (wrong,) = np.nonzero((~np.isfinite(boxes).all(2) | (boxes[..., 4] >= len(CLASSES))).any(1))
    if len(wrong):
        raise _damaged(f"{path}, sample {wrong[0]}: a box whose class is none of 0 … {len(CLASSES) - 1}")
    return boxes


def _damaged(what: str) -> DataError:
    return DataError(f"{what}. Run `trainmark data check` to find all such problems, then make or copy the file again.")


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
