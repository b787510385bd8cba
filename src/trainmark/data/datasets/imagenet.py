"""ImageNet as unpacked, or any images in class folders: train/<class>/*.JPEG and val/<class>/*.JPEG."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainmark.data.images.draw import draw_picture, figure_of, write_picture
from trainmark.data.images.files import ImageFiles, files_of_folders, list_folders, listing_fault
from trainmark.data.images.headers import Limits
from trainmark.data.images.resized import ResizedImages, Sizing, median_shape
from trainmark.data.images.resized_check import resized_problems
from trainmark.data.images.shape_cache import read_shapes, shape_cache
from trainmark.data.images.skip_list import is_skipped, read_skip_list
from trainmark.data.images.stored import StoredImages, folder_problems, image_problems
from trainmark.data.split import MAX_SAMPLES, Problem, SplitName
from trainmark.spec.config import StrictSection
from trainmark.spec.errors import ConfigError, DataError

FOLDERS: dict[SplitName, str] = {"train": "train", "eval": "val"}
PICTURE_BYTES = 92_000  # of a generated one, on average
CENTRE_SHARE = 224 / 256  # shorter side to 256, then the central 224; other sizes in proportion
PHOTO_SHAPE = (375, 500)  # about the median height and width of generated pictures
FILES_FOR_MEDIAN = 256  # headers that tell the median shape; the shapes of all are read when a split is opened


class ImagenetSettings(StrictSection):
    """Location and size of the images; the rest is for generated images."""

    path: str | None = Field(None, description="folder that holds train/ and val/; default: images are generated")
    image_size: int = Field(224, ge=8, le=4096, description="pixels from side to side, as the model sees an image")
    resize: Literal["crop", "none"] = Field("crop", description="crop: to image_size; none: images as they are")
    skip: str | None = Field(None, description="file with the names of images to leave out, as data check writes it")
    max_megapixels: float = Field(400.0, gt=0, description="resize=none: larger images are refused")
    smallest_side: int = Field(32, ge=1, description="resize=none: images with a shorter side are refused")
    shape_cache: str | None = Field(
        None, description="resize=none: folder that keeps the shapes of the files between runs; default: --data-dir"
    )
    num_train: int = Field(1000, ge=1, le=MAX_SAMPLES, description="generated training images")
    num_eval: int = Field(200, ge=1, le=MAX_SAMPLES, description="generated held-out images")
    num_classes: int = Field(10, ge=2, description="classes of the generated images")
    seed: int = Field(1, ge=0, description="seed of the generated images")


class Imagenet:
    """ImageNet as unpacked: train/<class>/*.JPEG and val/<class>/*.JPEG."""

    Settings = ImagenetSettings
    augmentations: tuple[str, ...] = ("none", "crop")
    # `make` does not depend on them. Nor on image_size, but folders of generated data have always been named by it.
    reading_settings = ("resize", "skip", "max_megapixels", "smallest_side", "shape_cache")

    def __init__(self, settings: ImagenetSettings) -> None:
        self.settings = settings
        self.variable_shape = settings.resize == "none"
        if self.variable_shape:
            self.augmentations = ("none",)
        self._sizing = Sizing()
        self._limits = Limits(settings.smallest_side, settings.max_megapixels)
        self._listed: dict[SplitName, ImageFiles] = {}
        self.num_skipped = 0

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """Channels, height and width; the medians of some images if they are left as they are."""
        if not self.variable_shape:
            return (3, self.settings.image_size, self.settings.image_size)
        if self.settings.path is None:
            return (3, *PHOTO_SHAPE)
        files = self._files("train")
        some = np.zeros(len(files), np.bool_)
        some[np.linspace(0, len(files) - 1, min(FILES_FOR_MEDIAN, len(files))).astype(int)] = True
        return (3, *median_shape(read_shapes(files.take(some), self._sizing, self._limits)))

    @property
    def num_classes(self) -> int:
        """How many classes there are, or will be once generated: folders of train/."""
        is_generated = self.settings.path is None
        return self.settings.num_classes if is_generated else len(list_folders(self._root / FOLDERS["train"]))

    def num_samples(self, split: SplitName) -> int:
        """How many images a split has, or will have once generated; no file is opened."""
        return self._num_generated(split) if self.settings.path is None else len(self._files(split))

    @property
    def made_bytes(self) -> int:
        """About the bytes that `make` writes."""
        return PICTURE_BYTES * (self._num_generated("train") + self._num_generated("eval"))

    def load(self, split: SplitName) -> StoredImages | ResizedImages:
        """The images and labels of a split; classes are numbered by the sorted folders of train/."""
        files = self._files(split)
        if self.variable_shape:
            return ResizedImages(files, self._shapes(files), self._sizing, self._limits).within_limits()
        return StoredImages(files, self.settings.image_size, CENTRE_SHARE)

    def prepare(self) -> None:
        """Keeps the shapes of all images for ranks and later runs: on shared storage a million headers take minutes."""
        for split in FOLDERS if self.variable_shape else ():
            files = self._files(split)
            cache = shape_cache(self.settings.shape_cache, files)
            if cache is not None and cache.read(len(files)) is None:
                cache.write(read_shapes(files, self._sizing, self._limits))

    def _shapes(self, files: ImageFiles) -> NDArray[np.int64]:
        cache = shape_cache(self.settings.shape_cache, files)
        kept = None if cache is None else cache.read(len(files))
        return read_shapes(files, self._sizing, self._limits) if kept is None else kept

    def check_settings(self) -> None:
        """Raises if a class would have no image."""
        fewest = min(self.settings.num_train, self.settings.num_eval)
        if fewest < self.settings.num_classes:
            raise ConfigError(
                f"{self.settings.num_classes} classes need as many images in each split, but one has {fewest}. "
                "Raise num_train and num_eval, or lower num_classes."
            )

    def make(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Writes drawn photographs of about 500 × 375 pixels in ImageNet's layout."""
        self.check_settings()
        total, made = self._num_generated("train") + self._num_generated("eval"), 0
        for split in FOLDERS:
            for label in range(self.settings.num_classes):
                (folder / FOLDERS[split] / _class_name(label)).mkdir(parents=True)
            for index in range(self._num_generated(split)):
                self._make_image(folder, split, index)
                made += 1
                progress(made, total)

    def check(self) -> Iterator[Problem]:
        """Yields all problems of the folder: missing or empty classes, and images that cannot be decoded."""
        classes: dict[SplitName, list[str]] = {}
        for split, name in FOLDERS.items():
            if fault := listing_fault(self._root / name):
                yield Problem(str(self._root / name), None, fault)
            else:
                classes[split] = list_folders(self._root / name)
        if len(classes) == len(FOLDERS):
            yield from self._missing_classes(classes)
        for split, names in classes.items():
            folders = [f"{FOLDERS[split]}/{name}" for name in names]
            bad = list(folder_problems(self._root / folder for folder in folders))
            yield from bad
            without_images = {problem.file for problem in bad}
            rest = [folder for folder in folders if str(self._root / folder) not in without_images]
            files, _ = self._without_skipped(files_of_folders(self._root, ((folder, 0) for folder in rest)))
            if self.variable_shape:
                yield from resized_problems(files, None, self._sizing, self._limits)
            else:
                yield from image_problems(files)

    def _missing_classes(self, classes: dict[SplitName, list[str]]) -> Iterator[Problem]:
        everywhere = set(classes["train"]) | set(classes["eval"])
        for split, names in classes.items():
            for name in sorted(everywhere - set(names)):
                yield Problem(str(self._root / FOLDERS[split] / name), None, "missing: the other split has this class")

    @property
    def _root(self) -> Path:
        if self.settings.path is None:
            raise ConfigError(
                "data.path is not set: ImageNet needs one. Choose --set data.path=DIR, which holds train/ and val/."
            )
        return Path(self.settings.path)

    def _files(self, split: SplitName) -> ImageFiles:
        if split not in self._listed:
            self._listed[split] = self._list(split)
        return self._listed[split]

    def _list(self, split: SplitName) -> ImageFiles:
        numbers = {name: number for number, name in enumerate(list_folders(self._root / FOLDERS["train"]))}
        classes = list_folders(self._root / FOLDERS[split])
        if unknown := [name for name in classes if name not in numbers]:
            raise DataError(
                f"{self._root / FOLDERS[split]} has the class {unknown[0]}, but {FOLDERS['train']}/ does not. "
                "Both must have the same folders; `trainmark data check` lists all that differ."
            )
        found = files_of_folders(self._root, ((f"{FOLDERS[split]}/{name}", numbers[name]) for name in classes))
        files, num_skipped = self._without_skipped(found)
        self.num_skipped += num_skipped
        if not len(files):
            raise DataError(
                f"{self._root / FOLDERS[split]} has no images. Put a folder per class there, with .JPEG files in it."
            )
        return files

    def _without_skipped(self, files: ImageFiles) -> tuple[ImageFiles, int]:
        """The files that data.skip does not name, and how many it does."""
        skipped = is_skipped(files, read_skip_list(self.settings.skip))
        return files.take(~skipped), int(np.count_nonzero(skipped))

    def _num_generated(self, split: SplitName) -> int:
        return self.settings.num_train if split == "train" else self.settings.num_eval

    def _make_image(self, folder: Path, split: SplitName, index: int) -> None:
        random = np.random.default_rng((self.settings.seed, list(FOLDERS).index(split), index))
        label = index % self.settings.num_classes
        picture = draw_picture(figure_of(label), "photo", *_photo_size(random), random)
        name = f"{_class_name(label)}_{index}" if split == "train" else f"ILSVRC2012_val_{index + 1:08d}"
        write_picture(picture, folder / FOLDERS[split] / _class_name(label) / f"{name}.JPEG")


def _class_name(label: int) -> str:
    return f"n{label + 1:08d}"


def _photo_size(random: np.random.Generator) -> tuple[int, int]:
    """Width and height: about 500 × 375, a quarter of the pictures in portrait."""
    long, short = round(random.normal(500, 40)), round(random.normal(375, 30))
    sides = max(200, long), max(150, short)
    return sides if random.random() < 0.75 else (sides[1], sides[0])
