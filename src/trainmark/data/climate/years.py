"""Years: a split made of the files of several years, found in folders, with the statistics of each channel."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.data.climate.grid import Array
from trainmark.data.climate.year_file import YearFile
from trainmark.data.split import Raw, SplitName
from trainmark.spec.errors import DataError

MAKE_THEM = (
    "`trainmark data make extreme-weather` generates some; the real ones: https://extremeweatherdataset.github.io"
)


def files_of_split(folder: Path, split: SplitName, eval_files: Sequence[str] = ()) -> list[Path]:
    """The files of a split, sorted by name.

    DIR/train/*.h5 and DIR/eval/*.h5 if these folders exist. Otherwise the files in DIR itself, one per year, of which
    `eval_files`, by default the last one, are held out.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. Set data.path to one with ExtremeWeather files; {MAKE_THEM}.")
    if (folder / "train").is_dir() or (folder / "eval").is_dir():
        files = _h5_files(folder / split)
        if not files:
            raise DataError(f"{folder / split} holds no *.h5 file, but the {split} split needs one; {MAKE_THEM}.")
        return files
    return _share_out(folder, split, eval_files)


def _share_out(folder: Path, split: SplitName, eval_files: Sequence[str]) -> list[Path]:
    files = _h5_files(folder)
    names = [file.name for file in files]
    if not files:
        raise DataError(f"{folder} holds neither train/ and eval/ nor *.h5 files; {MAKE_THEM}.")
    unknown = sorted(set(eval_files) - set(names))
    if unknown:
        raise DataError(
            f"data.eval_files names {', '.join(unknown)}, but {folder} has no such file. It has {', '.join(names)}."
        )
    held_out = set(eval_files) or {names[-1]}
    if len(held_out) == len(files):
        raise DataError(
            f"All {len(files)} *.h5 files of {folder} would be held out, and none is left to train on. "
            "Add a year, or name fewer in data.eval_files."
        )
    return [file for file in files if (file.name in held_out) == (split == "eval")]


def _h5_files(folder: Path) -> list[Path]:
    """Lists *.h5 files, without unfinished ones, whose names start with a dot."""
    return sorted(file for file in folder.glob("*.h5") if not file.name.startswith("."))


MAX_SAMPLES = 64
FEWEST_SAMPLES = 8
MAX_VALUES = 2**26  # 256 MiB of float32: at 16 × 768 × 1152 the fewest samples are more than enough


@dataclass(frozen=True)
class ChannelStatistics:
    """Means and standard deviations by channel: model input = (value − offset) / scale."""

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]


def chosen_samples(num_samples: int, values_per_sample: int) -> list[int]:
    """The samples for statistics: evenly spaced, the same in every process."""
    wanted = min(MAX_SAMPLES, max(FEWEST_SAMPLES, MAX_VALUES // values_per_sample), num_samples)
    return [place * num_samples // wanted for place in range(wanted)]


def channel_statistics(read: Callable[[int], NDArray[np.float32]], samples: list[int]) -> ChannelStatistics:
    """The statistics of `samples`; a channel that never changes has a scale of 1."""
    means, squares = [], []
    for sample in samples:
        image = read(sample)
        # Pressure in Pa squared does not fit the digits of float32; heights do not either.
        means.append(image.mean((1, 2), dtype=np.float64))
        squares.append(image.var((1, 2), dtype=np.float64) + means[-1] ** 2)
    offset = np.mean(means, axis=0)
    variance = np.maximum(np.mean(squares, axis=0) - offset**2, 0)
    # A variation below the resolution of float32 at the mean is rounding noise.
    scale = np.where(variance > (1e-7 * offset) ** 2, np.sqrt(variance), 1)
    return ChannelStatistics(offset.astype(np.float32), scale.astype(np.float32))


NUM_FINGERPRINTED = 4  # samples; a real one has 54 MiB


class Years:
    """The samples of several files; the normalisation is that of `reference`, a file of train."""

    shapes: NDArray[np.int64] | None = None  # all samples have `sample_shape`

    def __init__(self, files: Sequence[YearFile], reference: YearFile) -> None:
        if len({file.image_shape for file in (*files, reference)}) > 1:
            listed = ", ".join(f"{file.path} {file.image_shape}" for file in (reference, *files))
            raise DataError(f"Images of one dataset differ in shape: {listed}. Keep years of one shape together.")
        self._files = files
        self._reference = reference
        self._ends = np.cumsum([file.num_steps for file in files])
        self.labels: Array = np.concatenate([file.boxes for file in files])
        self.sample_shape: tuple[int, ...] = reference.image_shape

    def __len__(self) -> int:
        return int(self._ends[-1])

    def size_bytes(self, index: int) -> int:
        """The size of a sample's values; all are equal."""
        return self._reference.image_bytes

    def raw(self, index: int) -> memoryview:
        """The float32 values of sample `index`, as bytes."""
        file, step = self._place(index)
        return file.raw(step)

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> Array:
        """Decodes a sample, channels × height × width; weather has no augmentation."""
        assert augmentation == "none", augmentation
        file, step = self._place(index)
        return file.decode(raw, step)

    def read(self, index: int, augmentation: str, seed: int) -> Array:
        """Sample `index` as it is stored, channels × height × width."""
        return self.decode(self.raw(index), index, augmentation, seed)

    @property
    def offset(self) -> Array:
        """Mean of each channel."""
        return self._statistics.offset

    @property
    def scale(self) -> Array:
        """Standard deviation of each channel."""
        return self._statistics.scale

    def fingerprint(self) -> str:
        """A checksum of the files' names and sizes, of all boxes, and of a few samples spread over the split."""
        digest = hashlib.sha256(repr((self.sample_shape, len(self))).encode())
        for file in self._files:
            digest.update(f"{file.path.name} {file.path.stat().st_size}\n".encode())
        digest.update(np.ascontiguousarray(self.labels).data)
        for place in range(NUM_FINGERPRINTED):
            digest.update(self.read(place * len(self) // NUM_FINGERPRINTED, "none", 0).data)
        return digest.hexdigest()[:16]

    def _place(self, index: int) -> tuple[YearFile, int]:
        """The file that holds a sample, and its number there."""
        assert 0 <= index < len(self), index
        place = int(np.searchsorted(self._ends, index, side="right"))
        return self._files[place], index - (int(self._ends[place - 1]) if place else 0)

    @cached_property
    def _statistics(self) -> ChannelStatistics:
        samples = chosen_samples(self._reference.num_steps, int(np.prod(self.sample_shape)))
        return channel_statistics(self._reference.image, samples)
