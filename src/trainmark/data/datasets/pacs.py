"""PACS: seven classes in paintings, cartoons and photos, evaluated on held-out ones or on sketches."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from trainmark.data.images.draw import Style, draw_picture, figure_of, write_picture
from trainmark.data.images.files import (
    HOW_TO_FIND_ALL,
    ImageFiles,
    Listing,
    concatenate,
    files_of_folders,
    hold_out,
    listing_text,
    read_listing,
)
from trainmark.data.images.stored import StoredImages, folder_problems, image_problems
from trainmark.data.split import MAX_SAMPLES, Problem, SplitName, position_in_file
from trainmark.spec.config import StrictSection
from trainmark.spec.errors import ConfigError, DataError

DOMAINS = ("art_painting", "cartoon", "photo")  # used for training
SKETCH = "sketch"
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
STYLES: dict[str, Style] = {"art_painting": "painting", "cartoon": "cartoon", "photo": "photo", "sketch": "sketch"}
PICTURE_SIZE = 227
PICTURE_BYTES = 15_000  # of a generated one, on average
CENTRE_SHARE = 1.0  # pictures are square, and the object fills the frame
VALIDATION_SHARE = Fraction(605, 5444 + 605)

Part = Literal["train", "validation", "sketch"]
LISTS: dict[Part, str] = {"train": "train", "validation": "crossval"}  # parts with listing files, and their names


class PacsSettings(StrictSection):
    """Location and size of the images, and the evaluation domain; the rest is for generated images."""

    path: str | None = Field(None, description="folder that holds the domains' folders; default: images are generated")
    image_size: int = Field(224, ge=8, le=4096, description="pixels from side to side, as the model sees an image")
    eval_domain: Literal["validation", "sketch"] = Field(
        "validation", description="what evaluates: held-out images of the domains trained on, or sketches"
    )
    num_train: int = Field(700, ge=1, le=MAX_SAMPLES, description="generated training images")
    num_eval: int = Field(140, ge=1, le=MAX_SAMPLES, description="generated validation images, and as many sketches")
    seed: int = Field(1, ge=0, description="seed of the generated images, and of a split that no file lists")


class Pacs:
    """PACS: seven classes in paintings, cartoons and photos, evaluated on held-out ones or on sketches."""

    Settings = PacsSettings
    augmentations = ("none", "crop-colour")
    num_classes = len(CLASSES)

    def __init__(self, settings: PacsSettings) -> None:
        self.settings = settings
        self.sample_shape = (3, settings.image_size, settings.image_size)
        self._found: dict[Part, ImageFiles] = {}

    def num_samples(self, split: SplitName) -> int:
        """How many images a split has, or will have once generated; no image is opened."""
        if self.settings.path is None:
            return self.settings.num_train if split == "train" else self.settings.num_eval
        return len(self._files(self._part(split)))

    def num_stored(self) -> int:
        """The number of images in all parts, including those that these settings do not use."""
        return sum(len(self._files(part)) for part in get_args(Part))

    @property
    def made_bytes(self) -> int:
        """About the bytes that `make` writes."""
        return PICTURE_BYTES * (self.settings.num_train + 2 * self.settings.num_eval)

    def load(self, split: SplitName) -> StoredImages:
        """The images and labels of a split."""
        return StoredImages(self._files(self._part(split)), self.settings.image_size, CENTRE_SHARE)

    def make(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Writes drawn pictures of 227 × 227 pixels in the layout of PACS, with listing files of its parts."""
        num_train, num_eval = self.settings.num_train, self.settings.num_eval
        if num_train + num_eval < len(DOMAINS) * len(CLASSES) or num_eval < len(CLASSES):
            raise ConfigError(
                f"PACS has 3 × 7 folders of pictures and 7 of sketches, but {num_train} + {num_eval} pictures and "
                f"{num_eval} sketches leave some empty. Raise num_train and num_eval."
            )
        total, num_pictures = num_train + 2 * num_eval, num_train + num_eval
        kinds = list(product(range(len(CLASSES)), DOMAINS))
        listed: dict[Path, list[tuple[str, int]]] = {_list_path(folder, *of): [] for of in product(DOMAINS, LISTS)}
        for index in range(total):
            label, domain = kinds[index % len(kinds)] if index < num_pictures else (index % len(CLASSES), SKETCH)
            name = self._make_picture(folder, domain, label, index)
            if domain != SKETCH:
                part: Part = "train" if index < num_train else "validation"
                listed[_list_path(folder, domain, part)].append((name, label))
            progress(index + 1, total)
        for path, named in listed.items():
            path.write_text(listing_text(named))

    def check(self) -> Iterator[Problem]:
        """Yields all problems of the folder: empty folders, wrong lists, images that cannot be decoded."""
        bad = list(folder_problems(self._root / folder for folder, _ in _folders((*DOMAINS, SKETCH))))
        yield from bad
        without_images = {problem.file for problem in bad}

        def rest(domains: Iterable[str]) -> ImageFiles:
            usable = (pair for pair in _folders(domains) if str(self._root / pair[0]) not in without_images)
            return files_of_folders(self._root, usable)

        if any(self._lists().values()):
            yield from self._check_listed()
        elif without_images:
            yield from image_problems(rest(DOMAINS))
        else:
            yield from image_problems(self._files("train"))
            yield from image_problems(self._files("validation"))
        yield from image_problems(rest([SKETCH]))

    def _check_listed(self) -> Iterator[Problem]:
        for path, exists in self._lists().items():
            if not exists:
                yield Problem(str(path), None, "missing: other lists of this kind exist")
        trained: set[bytes] = set()
        for part in LISTS:
            listings = self._listings(part)
            for listing in listings:
                yield from listing.problems
            files = concatenate(self._root, [listing.files(self._root) for listing in listings])
            also_trained = (
                Problem(str(files.path(index)), index, "held out, but also listed for training")
                for index, name in enumerate(files.names.tolist())
                if name in trained
            )
            yield from heapq.merge(also_trained, image_problems(files), key=position_in_file)
            trained |= set(files.names.tolist())

    @property
    def _root(self) -> Path:
        if self.settings.path is None:
            raise ConfigError(
                "data.path is not set: PACS needs one. Choose --set data.path=DIR, which holds the domains' folders."
            )
        return Path(self.settings.path)

    def _part(self, split: SplitName) -> Part:
        return "train" if split == "train" else self.settings.eval_domain

    def _files(self, part: Part) -> ImageFiles:
        if part not in self._found:
            self._found[part] = self._find(part)
            if not len(self._found[part]):
                raise DataError(f"{self._root} has no images for {part}. `trainmark data check` lists the problems.")
        return self._found[part]

    def _find(self, part: Part) -> ImageFiles:
        if part == "sketch":
            return files_of_folders(self._root, _folders([SKETCH]))
        lists = self._lists()
        if not any(lists.values()):
            return self._split_at_random(part)
        if missing := [path for path, exists in lists.items() if not exists]:
            raise DataError(f"{missing[0]} is missing, but other lists exist. Add it, or remove them all.")
        listings = self._listings(part)
        for problem in (problem for listing in listings for problem in listing.problems):
            raise DataError(f"{problem.file}: {problem.what}. {HOW_TO_FIND_ALL}")
        return concatenate(self._root, [listing.files(self._root) for listing in listings])

    def _split_at_random(self, part: Part) -> ImageFiles:
        """A part without listing files: one in ten of each domain and class is held out."""
        folders = [files_of_folders(self._root, [pair]) for pair in _folders(DOMAINS)]
        held_out = hold_out([len(files) for files in folders], VALIDATION_SHARE, self.settings.seed)
        chosen = held_out if part == "validation" else [~mask for mask in held_out]
        return concatenate(self._root, [files.take(mask) for files, mask in zip(folders, chosen, strict=True)])

    def _lists(self) -> dict[Path, bool]:
        """The listing files, and whether they exist."""
        paths = [_list_path(self._root, domain, part) for domain in DOMAINS for part in LISTS]
        return {path: path.exists() for path in paths}

    def _listings(self, part: Part) -> list[Listing]:
        paths = {domain: _list_path(self._root, domain, part) for domain in DOMAINS}
        return [read_listing(path, domain, CLASSES) for domain, path in paths.items() if path.exists()]

    def _make_picture(self, folder: Path, domain: str, label: int, index: int) -> str:
        random = np.random.default_rng((self.settings.seed, index))
        picture = draw_picture(figure_of(label), STYLES[domain], PICTURE_SIZE, PICTURE_SIZE, random)
        name = f"{domain}/{CLASSES[label]}/pic_{index:05d}.{'png' if domain == SKETCH else 'jpg'}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_picture(picture, folder / name)
        return name


def _folders(domains: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each domain's folders, with the label of their images."""
    for domain in domains:
        for label, name in enumerate(CLASSES):
            yield f"{domain}/{name}", label


def _list_path(root: Path, domain: str, part: Part) -> Path:
    return root / f"{domain}_{LISTS[part]}_kfold.txt"
