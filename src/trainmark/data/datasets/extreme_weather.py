"""ExtremeWeather: storms and atmospheric rivers to be found in 16-channel images of the globe, as HDF5 files by year.

A file (climo_1979.h5 …) holds `images`, steps × 16 × 768 × 1152 float32, and `boxes`, steps × 15 × 5: ymin, xmin, ymax,
xmax and class of each event, unused rows are −1 (https://extremeweatherdataset.github.io).
`path` is a folder with train/*.h5 and eval/*.h5, or one with the downloaded *.h5 files themselves, of which
`eval_files`, or else the last by name, are held out. `make` writes simulated weather of any size in the same layout.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import Field

from trainmark.data.climate.grid import CLASSES, NUM_CHANNELS
from trainmark.data.climate.year import Climate, Year
from trainmark.data.climate.year_check import problems_of_files
from trainmark.data.climate.year_file import YearFile, count_samples, was_simulated, write_year
from trainmark.data.climate.years import Years, files_of_split
from trainmark.data.split import MAX_SAMPLES, Problem, SplitName, StoredSplit
from trainmark.spec.config import StrictSection
from trainmark.spec.errors import DataError

SPLITS: tuple[SplitName, ...] = ("train", "eval")
FIRST_YEARS = {"train": 1979, "eval": 2005}  # the first and the last that were published


class ExtremeWeatherSettings(StrictSection):
    """The location of the files; the rest is for generated weather."""

    path: str | None = Field(None, description="folder of HDF5 files; default: weather is generated")
    eval_files: str = Field("", description="files held out where path has no train/ and eval/; default: the last")
    num_train: int = Field(400, ge=1, le=MAX_SAMPLES, description="generated training samples")
    num_eval: int = Field(120, ge=1, le=MAX_SAMPLES, description="generated held-out samples")
    height: int = Field(64, ge=48, description="rows of a generated image, from pole to pole; the real ones have 768")
    width: int = Field(96, ge=64, description="columns of a generated image, round the globe; the real ones have 1152")
    seed: int = Field(1, ge=0, description="seed of the generated weather")
    step_hours: int = Field(24, ge=1, le=8760, description="hours between generated samples; 6 in the real ones")
    events_per_sample: float = Field(7.0, ge=0, le=12, description="events at a time; some are too faint for a box")
    noise: float = Field(2.0, ge=0, description="strength of eddies and pixel noise in generated images; 0 has none")


class ExtremeWeather:
    """Storms and atmospheric rivers to be found in 16-channel images of the globe, as HDF5 files by year."""

    Settings = ExtremeWeatherSettings
    augmentations = ("none",)
    task = "detection"
    neighbours_are_alike = True  # a storm lasts for several samples
    num_classes = len(CLASSES)

    def __init__(self, settings: ExtremeWeatherSettings) -> None:
        self.settings = settings

    @property
    def sample_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of generated weather; None if it depends on files."""
        return (NUM_CHANNELS, self.settings.height, self.settings.width) if self.settings.path is None else None

    @property
    def is_simulated(self) -> bool:
        """Whether the weather is simulated by trainmark, as recorded in its files."""
        return self.settings.path is None or was_simulated(self._files("train")[0])

    @property
    def made_bytes(self) -> int:
        """About the bytes that `make` writes: float32 images."""
        pixels = NUM_CHANNELS * self.settings.height * self.settings.width
        return 4 * pixels * (self.settings.num_train + self.settings.num_eval)

    def num_samples(self, split: SplitName) -> int:
        """How many samples a split has, or will have once generated; only shapes are read from files."""
        if self.settings.path is None:
            return self._num_generated(split)
        return sum(count_samples(file) for file in self._files(split))

    def load(self, split: SplitName) -> StoredSplit:
        """The split's boxes, with images read one by one."""
        files = [YearFile(file) for file in self._files(split)]
        return Years(files, files[0] if split == "train" else YearFile(self._files("train")[0]))

    def make(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Writes the weather that the settings describe, as train/*.h5 and eval/*.h5."""
        years = {folder / split / year.name: year for split in SPLITS for year in self._years(split)}
        total = sum(year.num_steps for year in years.values())
        done = 0

        def after_sample() -> None:
            nonlocal done
            done += 1
            progress(done, total)

        for path, year in years.items():
            write_year(path, year, after_sample)

    def check(self) -> Iterator[Problem]:
        """Yields all problems of all files, with the sample's index in the file."""
        files: list[Path] = []
        missing: dict[str, None] = {}  # an empty folder is one problem, not one per split
        for split in SPLITS:
            try:
                files += self._files(split)
            except DataError as error:
                missing[str(error)] = None
        yield from (Problem(str(self.settings.path), None, what) for what in missing)
        yield from problems_of_files(files)

    def _files(self, split: SplitName) -> list[Path]:
        if self.settings.path is None:
            raise DataError("data.path is not set: there are no files to read. Set it to a folder of *.h5 files.")
        held_out = [name.strip() for name in self.settings.eval_files.split(",") if name.strip()]
        return files_of_split(Path(self.settings.path).expanduser(), split, held_out)

    def _num_generated(self, split: SplitName) -> int:
        return self.settings.num_train if split == "train" else self.settings.num_eval

    def _years(self, split: SplitName) -> list[Year]:
        """The years that the settings describe: full ones, and the remainder."""
        settings = self.settings
        climate = Climate(
            height=settings.height,
            width=settings.width,
            seed=settings.seed,
            step_hours=settings.step_hours,
            events_per_sample=settings.events_per_sample,
            noise=settings.noise,
        )
        count = self._num_generated(split)
        steps_per_year = 365 * 24 // settings.step_hours
        starts = range(0, count, steps_per_year)
        first = FIRST_YEARS[split]
        return [
            Year(climate, f"climo_{first + place}.h5", (SPLITS.index(split), first + place), num_steps)
            for place, num_steps in enumerate(min(steps_per_year, count - start) for start in starts)
        ]
