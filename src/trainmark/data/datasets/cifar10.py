"""CIFAR-10 in its binary version: records of one byte for the class and 3 × 1024 for the red, green and blue planes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainmark.data.datasets.shapes import Shapes, ShapesSettings
from trainmark.data.images.files import HOW_TO_FIND_ALL, reason_of
from trainmark.data.split import MAX_SAMPLES, Problem, Split, SplitName
from trainmark.spec.config import StrictSection
from trainmark.spec.errors import ConfigError, DataError
from trainmark.spec.units import counted

SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32
FILES: dict[SplitName, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "eval": ("test_batch.bin",),
}
NAMES_FILE = "batches.meta.txt"
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# Of the 50,000 training images: red, green and blue, from 0 to 255.
MEAN = np.array([125.307, 122.950, 113.865], np.float32)
DEVIATION = np.array([62.993, 62.089, 66.705], np.float32)


class Cifar10Settings(StrictSection):
    """The location of the files; the rest is for generated images."""

    path: str | None = Field(None, description="folder that holds data_batch_1.bin …; default: images are generated")
    num_train: int = Field(5000, ge=5, le=MAX_SAMPLES, description="generated training images")
    num_eval: int = Field(1000, ge=1, le=MAX_SAMPLES, description="generated held-out images")
    seed: int = Field(1, ge=0, description="seed of the generated images")


class Cifar10:
    """CIFAR-10 in its binary version: ten classes of objects on 32 × 32 colour images, in six files."""

    Settings = Cifar10Settings
    augmentations = ("none", "flip-shift")
    num_classes = len(NAMES)
    sample_shape = SHAPE

    def __init__(self, settings: Cifar10Settings) -> None:
        self.settings = settings

    def num_samples(self, split: SplitName) -> int:
        """How many images a split has, or will have once generated; files are not read, only their sizes."""
        if self.settings.path is None:
            return self.settings.num_train if split == "train" else self.settings.num_eval
        return sum(self._num_records(name) for name in FILES[split])

    @property
    def made_bytes(self) -> int:
        """The bytes that `make` writes."""
        return (self.settings.num_train + self.settings.num_eval) * RECORD_BYTES

    def load(self, split: SplitName) -> Split:
        """The images (uint8, N × 3 × 32 × 32) and labels of a split, file after file."""
        records = np.concatenate([self._records(name) for name in FILES[split]])
        return Split(records[:, 1:].reshape(-1, *SHAPE), records[:, 0].astype(np.int64), MEAN, DEVIATION)

    def make(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Writes the images of the dataset `shapes`, ten kinds on 32 × 32 pixels, in CIFAR-10's files."""
        num_train, num_eval, seed = self.settings.num_train, self.settings.num_eval, self.settings.seed
        shapes = Shapes(ShapesSettings(num_train=num_train, num_eval=num_eval, seed=seed))
        made = 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAMES_FILE).write_text("".join(f"{name}\n" for name in NAMES))
        for split, names in FILES.items():
            drawn = shapes.load(split)
            records = np.column_stack([drawn.labels.astype(np.uint8), drawn.samples.reshape(len(drawn.samples), -1)])
            for name, part in zip(names, np.array_split(records, len(names)), strict=True):
                (folder / name).write_bytes(part.tobytes())
                made += len(part)
                progress(made, num_train + num_eval)

    def check(self) -> Iterator[Problem]:
        """Yields all problems of the files: missing, of a wrong length, or with invalid labels."""
        if not (self._root / NAMES_FILE).exists():
            yield Problem(str(self._root / NAMES_FILE), None, "missing: it has the class names")
        for names in FILES.values():
            counts = {}
            for name in names:
                problems, counts[name] = self._check_file(self._root / name)
                yield from problems
            for name, count in counts.items():
                if 0 < count < max(counts.values()) - 1:
                    what = f"has {counted(count, 'record')}, but another training file {max(counts.values()):,}"
                    yield Problem(str(self._root / name), None, what)

    def _check_file(self, path: Path) -> tuple[list[Problem], int]:
        """What is wrong with a file, and how many records it has."""
        try:
            content = path.read_bytes()
        except OSError as error:
            return [Problem(str(path), None, f"cannot be read: {reason_of(error)}")], 0
        problems = [Problem(str(path), None, fault)] if (fault := _length_fault(len(content))) else []
        count = len(content) // RECORD_BYTES
        for index, label in enumerate(content[: count * RECORD_BYTES : RECORD_BYTES]):
            if label >= len(NAMES):
                problems.append(Problem(str(path), index, _label_fault(label)))
        return problems, count

    @property
    def _root(self) -> Path:
        if self.settings.path is None:
            raise ConfigError(
                "data.path is not set: CIFAR-10 needs one. Choose --set data.path=DIR, which holds data_batch_1.bin."
            )
        return Path(self.settings.path)

    def _num_records(self, name: str) -> int:
        path = self._root / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise DataError(f"{path} cannot be read: {reason_of(error)}. Check --set data.path.") from error
        if fault := _length_fault(size):
            raise DataError(f"{path} {fault}. Unpack cifar-10-binary.tar.gz again.")
        return size // RECORD_BYTES

    def _records(self, name: str) -> NDArray[np.uint8]:
        path, count = self._root / name, self._num_records(name)
        records = np.fromfile(path, np.uint8).reshape(count, RECORD_BYTES)
        for index in np.flatnonzero(records[:, 0] >= len(NAMES)).tolist():
            raise DataError(f"{path} (record {index}) has the {_label_fault(records[index, 0])}. {HOW_TO_FIND_ALL}")
        return records


def _length_fault(size: int) -> str | None:
    if size == 0:
        return "is empty"
    return f"has {size:,} bytes, not a multiple of {RECORD_BYTES:,}" if size % RECORD_BYTES else None


def _label_fault(label: int) -> str:
    return f"label {label}, but classes are 0 to {len(NAMES) - 1}"
