"""MAMe: artworks in 29 mediums, of every size and shape; MAMe_dataset.csv, MAMe_labels.csv and data/*.jpg."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainmark.data.artworks.catalogue import FOLDER, Artwork, Catalogue, read_catalogue, read_classes, write_catalogue
from trainmark.data.artworks.shapes import SMALLEST_SIDE, artwork_shapes
from trainmark.data.images.draw import draw_picture, figure_of, write_picture
from trainmark.data.images.headers import Limits
from trainmark.data.images.resized import HOW_TO_SKIP, ResizedImages, Sizing, median_shape
from trainmark.data.images.resized_check import resized_problems
from trainmark.data.images.skip_list import read_skip_list
from trainmark.data.split import MAX_SAMPLES, Problem, SplitName
from trainmark.spec.config import StrictSection
from trainmark.spec.errors import ConfigError, DataError

SUBSETS: dict[SplitName, str] = {"train": "train", "eval": "val"}  # its test subset is not used
SIDES = {"lr": 256, "mr": 500}
BYTES_PER_PIXEL = 0.45  # of a generated picture
DRAWN_FOR_MEDIAN = 10_000  # shapes at most
MEDIUMS = (
    *("Albumen photograph", "Bronze", "Ceramic", "Clay", "Engraving", "Etching", "Faience", "Glass", "Gold"),
    *("Graphite", "Hand-colored engraving", "Hand-colored etching", "Iron", "Ivory", "Limestone", "Lithograph"),
    *("Marble", "Oil on canvas", "Pen and brown ink", "Polychromed wood", "Porcelain", "Silk and metal thread"),
    *("Silver", "Steel", "Wood", "Wood engraving", "Woodblock", "Woodcut", "Woven fabric"),
)


class ArtworksSettings(StrictSection):
    """Location and resizing of the images; num_train to mean_megapixels are for generated images."""

    path: str | None = Field(None, description="folder of MAMe_dataset.csv and data/; default: images are generated")
    input: Literal["lr", "mr", "hr"] = Field(
        "lr", description="lr: squashed to 256 × 256; mr: shorter side 500, aspect kept; hr: as they are"
    )
    side: int | None = Field(None, ge=8, le=8192, description="pixels in place of lr's 256 or mr's 500")
    skip: str | None = Field(None, description="file with the names of images to leave out, as data check writes it")
    max_megapixels: float = Field(400.0, gt=0, description="larger images are refused; MAMe's largest has 373")
    smallest_side: int = Field(SMALLEST_SIDE, ge=1, description="images with a shorter side are refused")
    num_train: int = Field(290, ge=1, le=MAX_SAMPLES, description="generated training images")
    num_eval: int = Field(58, ge=1, le=MAX_SAMPLES, description="generated held-out images")
    num_classes: int = Field(len(MEDIUMS), ge=2, le=len(MEDIUMS), description="classes of the generated images")
    mean_megapixels: float = Field(6.6, ge=0.005, le=400, description="mean size of the generated images")
    seed: int = Field(1, ge=0, description="seed of the generated images")


class Artworks:
    """MAMe: artworks in 29 mediums, of every size and shape."""

    Settings = ArtworksSettings
    augmentations = ("none",)
    reading_settings = ("input", "side", "skip", "max_megapixels", "smallest_side")  # `make` does not depend on them

    def __init__(self, settings: ArtworksSettings) -> None:
        if settings.input == "hr" and settings.side is not None:
            raise ConfigError("data.input=hr leaves images as they are: choose data.input=mr, or remove data.side.")
        self.settings = settings
        self._sizing = Sizing(settings.side or SIDES.get(settings.input), keeps_aspect=settings.input != "lr")
        self._limits = Limits(settings.smallest_side, settings.max_megapixels)

    @property
    def variable_shape(self) -> bool:
        """Whether images differ in height and width as the model sees them."""
        return self._sizing.fixed_shape is None

    @property
    def sample_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width, or the medians of images to be generated; None where only files say."""
        if self._sizing.fixed_shape is not None:
            return (3, *self._sizing.fixed_shape)
        if self.settings.path is not None:
            return None
        return (3, *median_shape(self._sizing.seen(self._drawn_shapes("train", DRAWN_FOR_MEDIAN))))

    @property
    def num_classes(self) -> int:
        """How many classes there are, or will be once generated."""
        return self.settings.num_classes if self.settings.path is None else len(self._classes)

    @property
    def num_skipped(self) -> int:
        """How many images data.skip leaves out."""
        return 0 if self.settings.path is None else self._catalogue.num_skipped

    def num_samples(self, split: SplitName) -> int:
        """How many images a split has, or will have once generated; no image is opened."""
        return self._num_generated(split) if self.settings.path is None else len(self._usable(split).files)

    @property
    def made_bytes(self) -> int:
        """About the bytes that `make` writes."""
        num_pictures = self._num_generated("train") + self._num_generated("eval")
        return round(num_pictures * self.settings.mean_megapixels * 1e6 * BYTES_PER_PIXEL)

    def shapes(self, split: SplitName) -> NDArray[np.int64]:
        """Heights and widths as the model sees them, also of images to be generated; no image is opened."""
        stated = self._drawn_shapes(split) if self.settings.path is None else self._usable(split).stated
        return self._sizing.seen(stated)

    def names(self, split: SplitName) -> list[str]:
        """The files of a split, also those to be generated, relative to data.path."""
        if self.settings.path is None:
            return [self._made_name(split, index) for index in range(self._num_generated(split))]
        files = self._usable(split).files
        return [files.name(index) for index in range(len(files))]

    def load(self, split: SplitName) -> ResizedImages:
        """The images and labels of a split, in the order of the catalogue."""
        return self._usable(split).within_limits()

    def prepare(self) -> None:
        """Refuses missing and empty files before a run starts; what is wrong inside is found when they are read."""
        for split in SUBSETS:
            self._usable(split).check_files()

    def make(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Writes drawn pictures of many sizes and shapes, and their catalogue, in MAMe's layout."""
        (folder / FOLDER).mkdir(parents=True)
        total, artworks = self._num_generated("train") + self._num_generated("eval"), list[Artwork]()
        for number, (split, subset) in enumerate(SUBSETS.items()):
            for index, (height, width) in enumerate(self._drawn_shapes(split).tolist()):
                name, label = self._made_name(split, index), index % self.settings.num_classes
                random = np.random.default_rng((self.settings.seed, number, index))
                write_picture(draw_picture(figure_of(label), "photo", width, height, random), folder / name)
                artworks.append(Artwork(name, label, subset, height, width))
                progress(len(artworks), total)
        write_catalogue(folder, artworks, {name: number for number, name in enumerate(self._made_classes)})

    def check(self) -> Iterator[Problem]:
        """Yields all problems: of the catalogue's lines, and of images that are missing, damaged or not as stated."""
        classes, problems = read_classes(self._root)
        catalogue = read_catalogue(self._root, classes, read_skip_list(self.settings.skip))
        yield from (*problems, *catalogue.problems)
        for subset in SUBSETS.values():
            files, stated = catalogue.files(self._root, subset), catalogue.shapes(subset)
            if not len(files):
                yield Problem(str(self._root), None, f"has no images in the subset {subset!r}")
            yield from resized_problems(files, stated, self._sizing, self._limits)

    @property
    def _root(self) -> Path:
        if self.settings.path is None:
            raise ConfigError("data.path is not set: MAMe needs one. Choose --set data.path=DIR, which holds data/.")
        return Path(self.settings.path)

    @cached_property
    def _classes(self) -> dict[str, int]:
        classes, problems = read_classes(self._root)
        _raise_first(problems)
        return classes

    @cached_property
    def _catalogue(self) -> Catalogue:
        catalogue = read_catalogue(self._root, self._classes, read_skip_list(self.settings.skip))
        _raise_first(catalogue.problems)
        return catalogue

    def _usable(self, split: SplitName) -> ResizedImages:
        files = self._catalogue.files(self._root, SUBSETS[split])
        if not len(files):
            raise DataError(f"{self._root} has no images in the subset {SUBSETS[split]!r}. {HOW_TO_SKIP}")
        return ResizedImages(files, self._catalogue.shapes(SUBSETS[split]), self._sizing, self._limits)

    @property
    def _made_classes(self) -> tuple[str, ...]:
        return MEDIUMS[: self.settings.num_classes]

    def _made_name(self, split: SplitName, index: int) -> str:
        return f"{FOLDER}/{list(SUBSETS).index(split) + 1}{index:06d}.jpg"

    def _num_generated(self, split: SplitName) -> int:
        return self.settings.num_train if split == "train" else self.settings.num_eval

    def _drawn_shapes(self, split: SplitName, most: int = MAX_SAMPLES) -> NDArray[np.int64]:
        random = np.random.default_rng((self.settings.seed, list(SUBSETS).index(split)))
        return artwork_shapes(min(most, self._num_generated(split)), self.settings.mean_megapixels, random)


def _raise_first(problems: "list[Problem] | tuple[Problem, ...]") -> None:
    for problem in problems:
        raise DataError(f"{problem.file}: {problem.what}. `trainmark data check` lists all problems.")
