"""MAMe's catalogue: which file shows an artwork of which medium, in which subset, with which height and width."""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.files import ImageFiles, files_of, reason_of
from trainmark.data.split import Problem

DATASET, LABELS, FOLDER = "MAMe_dataset.csv", "MAMe_labels.csv", "data"
COLUMNS = (
    *("Image file", "Medium", "Museum", "Museum-based instance ID", "Subset"),
    *("Width", "Height", "Product size", "Aspect ratio"),
)
NEEDED = ("Image file", "Medium", "Subset", "Width", "Height")
SUBSETS = ("train", "val", "test")
MAX_DIGITS = 9  # of a class number


class Artwork(NamedTuple):
    """A line of the catalogue."""

    name: str  # of its file, relative to the dataset's folder
    label: int
    subset: str
    height: int
    width: int


@dataclass(frozen=True)
class Catalogue:
    """The artworks in the order of their lines, those that are left out, and what is wrong with the others' lines."""

    artworks: tuple[Artwork, ...]
    num_skipped: int
    problems: tuple[Problem, ...]

    def files(self, root: Path, subset: str) -> ImageFiles:
        """The image files of a subset."""
        chosen = [artwork for artwork in self.artworks if artwork.subset == subset]
        return files_of(root, [artwork.name for artwork in chosen], [artwork.label for artwork in chosen])

    def shapes(self, subset: str) -> NDArray[np.int64]:
        """Height and width of every image of a subset."""
        chosen = [(artwork.height, artwork.width) for artwork in self.artworks if artwork.subset == subset]
        return np.array(chosen, np.int64).reshape(-1, 2)


def read_classes(root: Path) -> tuple[dict[str, int], list[Problem]]:
    """The number of each medium by name, from lines such as `17,Oil on canvas`; and what is wrong with the lines."""
    path, classes, problems = root / LABELS, dict[str, int](), list[Problem]()
    for line, row in _rows(path, problems):
        if len(row) != 2 or not row[0].isdecimal() or len(row[0]) > MAX_DIGITS or not row[1] or row[1] in classes:
            problems.append(Problem(str(path), line, f"line {line + 1} is not 'number,medium', each once: {row!r}"))
        else:
            classes[row[1]] = int(row[0])
    if not problems and sorted(classes.values()) != list(range(len(classes))):
        problems.append(Problem(str(path), None, f"its numbers are not 0 to {len(classes) - 1}, each once"))
    if not problems and not classes:
        problems.append(Problem(str(path), None, "has no classes"))
    return classes, problems


def read_catalogue(root: Path, classes: Mapping[str, int], skipped: frozenset[bytes]) -> Catalogue:
    """The artworks of the catalogue without those whose files are `skipped`; a malformed line becomes a problem."""
    path, problems, artworks, names = root / DATASET, list[Problem](), list[Artwork](), set[str]()
    rows = _rows(path, problems)
    _, header = next(rows, (0, []))
    if missing := [column for column in NEEDED if column not in header]:
        if not problems:
            problems.append(Problem(str(path), None, f"has no column {missing[0]!r} in its first line"))
        return Catalogue((), 0, tuple(problems))
    places = [header.index(column) for column in NEEDED]
    num_skipped = 0
    for line, row in rows:
        name = f"{FOLDER}/{row[places[0]]}" if len(row) == len(header) else None
        if name is not None and os.fsencode(name) in skipped:
            num_skipped += 1
            continue
        values = [row[place] for place in places] if name is not None else None
        artwork = "has not as many values as the first one" if values is None else _artwork(values, classes, names)
        if isinstance(artwork, Artwork):
            names.add(artwork.name)
            artworks.append(artwork)
        else:
            # Of a second line, the catalogue is at fault: the image itself may be used.
            problems.append(Problem(str(path), line, f"line {line + 1} {artwork}", None if name in names else name))
    return Catalogue(tuple(artworks), num_skipped, tuple(problems))


def _artwork(values: list[str], classes: Mapping[str, int], names: set[str]) -> Artwork | str:
    """The artwork of a line, or what is wrong with it."""
    file, medium, subset, width, height = values
    name = f"{FOLDER}/{file}"
    if file in ("", ".", "..") or "/" in file or "\0" in file:
        return f"names {file!r}, which is no name of a file"
    if name in names:
        return f"names {file}, which an earlier line does as well"
    if medium not in classes:
        return f"has the medium {medium!r}, which {LABELS} does not"
    if subset not in SUBSETS:
        return f"has the subset {subset!r}, which is none of {', '.join(SUBSETS)}"
    sides = [_side(text) for text in (height, width)]
    if sides[0] is None or sides[1] is None:
        return f"has the width {width!r} and the height {height!r}, which are no numbers of pixels"
    return Artwork(name, classes[medium], subset, sides[0], sides[1])


def _side(text: str) -> int | None:
    """The number of pixels that is written like 3144.0; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value >= 1 and value.is_integer() and value < 2**31 else None


def _rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, list[str]]]:
    """Yields the number, from 0, and the values of each line that is not empty; what stops it becomes a problem."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.reader(file)
            for row in reader:
                if row:
                    yield reader.line_num - 1, [value.strip() for value in row]  # the real one has 'Woven fabric '
    except OSError as error:
        problems.append(Problem(str(path), None, f"cannot be read: {reason_of(error)}"))
    except csv.Error as error:
        problems.append(Problem(str(path), None, f"cannot be read: {error}"))


def write_catalogue(folder: Path, artworks: Iterable[Artwork], classes: Mapping[str, int]) -> None:
    """Writes both files of the catalogue as MAMe has them."""
    mediums = {number: medium for medium, number in classes.items()}
    with (folder / LABELS).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(sorted(mediums.items()))
    with (folder / DATASET).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number, (name, label, subset, height, width) in enumerate(artworks):
            sides = (f"{width}.0", f"{height}.0", f"{width * height}.0", f"{width / height:.4f}")
            identity = (name.removeprefix(f"{FOLDER}/"), mediums[label], "trainmark", f"generated, {number}")
            writer.writerow((*identity, subset, *sides))
