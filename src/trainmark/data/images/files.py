"""The image files of a split, from folders or listing files, and which samples are held out."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trainmark.data.split import Problem
from trainmark.spec.errors import DataError

SUFFIXES = (".jpeg", ".jpg", ".png")
WHOLE_FILES = 16  # files whose content enters the fingerprint
HOW_TO_FIND_ALL = "List every bad file with `trainmark data check`, then repair or remove them."


@dataclass(frozen=True)
class ImageFiles:
    """Files below `root` and their labels, in the order of sample indices."""

    root: Path
    names: NDArray[np.bytes_]  # relative to root; one compact array: ImageNet has 1.28 million, and readers copy it
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The name of sample `index`, relative to root."""
        return os.fsdecode(bytes(self.names[index]))

    def path(self, index: int) -> Path:
        """The file of sample `index`."""
        return self.root / self.name(index)

    def take(self, chosen: NDArray[np.bool_]) -> "ImageFiles":
        """Only the `chosen` samples."""
        return ImageFiles(self.root, self.names[chosen], self.labels[chosen])

    @cached_property
    def sizes_bytes(self) -> NDArray[np.int64]:
        """The size of every file, cached: on shared storage a million stat calls take minutes."""
        try:
            # Strings: a million Path objects would take most of the time.
            sizes = [os.stat(f"{self.root}/{os.fsdecode(name)}").st_size for name in self.names.tolist()]  # noqa: PTH116
        except OSError as error:
            raise DataError(f"{error.filename} cannot be read: {reason_of(error)}. {HOW_TO_FIND_ALL}") from error
        return np.array(sizes, np.int64)

    def fingerprint(self) -> str:
        """A checksum of all names, sizes and labels, and of the bytes of some files."""
        digest = hashlib.sha256(b"\0".join(self.names.tolist()))
        digest.update(self.labels.astype("<i8").tobytes())
        some = set(np.linspace(0, len(self) - 1, WHOLE_FILES).astype(int).tolist()) if len(self) else set()
        digest.update(self.sizes_bytes.astype("<i8").tobytes())
        try:
            for index in sorted(some):
                with open_regular(self.path(index)) as file:
                    digest.update(file.read())
        except OSError as error:
            raise DataError(f"{error.filename} cannot be read: {reason_of(error)}. {HOW_TO_FIND_ALL}") from error
        return digest.hexdigest()[:16]


def open_regular(path: Path) -> IO[bytes]:
    """Opens a file for reading; raises OSError for folders, FIFOs, sockets and devices, which might block for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _not_regular(path) if error.errno in (errno.ENXIO, errno.ENODEV) else error from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return os.fdopen(descriptor, "rb")


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", str(path))


def files_of(root: Path, names: Iterable[str], labels: Sequence[int]) -> ImageFiles:
    """The files of these names below root, in this order."""
    return ImageFiles(root, np.array([os.fsencode(name) for name in names], np.bytes_), np.array(labels, np.int64))


def files_of_folders(root: Path, labelled: Iterable[tuple[str, int]]) -> ImageFiles:
    """All image files of (folder below root, label) pairs, folder after folder, each in the order of names."""
    folders = []
    for folder, label in labelled:
        names = [f"{folder}/{name}" for name in list_images(root / folder)]
        folders.append(files_of(root, names, [label] * len(names)))
    return concatenate(root, folders)


def concatenate(root: Path, parts: Sequence[ImageFiles]) -> ImageFiles:
    """Concatenates the files of all parts."""
    if not parts:
        return files_of(root, (), ())
    return ImageFiles(
        root, np.concatenate([part.names for part in parts]), np.concatenate([part.labels for part in parts])
    )


def list_folders(folder: Path) -> list[str]:
    """The names of the folders in `folder`, sorted; without hidden ones."""
    return sorted(entry.name for entry in _entries(folder) if entry.is_dir())


def list_images(folder: Path) -> list[str]:
    """The names of the image files in `folder`, sorted; without hidden ones."""
    return sorted(entry.name for entry in _entries(folder) if entry.name.lower().endswith(SUFFIXES))


def listing_fault(folder: Path) -> str | None:
    """Why the folder cannot be listed; None if it can."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        return f"cannot be listed: {reason_of(error)}"
    return None


def reason_of(error: OSError) -> str:
    """The system's error message, as part of a sentence."""
    return (error.strerror or str(error)).lower()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder} cannot be listed: {reason_of(error)}. Check --set data.path.") from error


@dataclass(frozen=True)
class Listing:
    """The images in a listing file, as domain/class/name with labels from 0, and problems of its lines."""

    names: tuple[str, ...]
    labels: tuple[int, ...]
    problems: tuple[Problem, ...]

    def files(self, root: Path) -> ImageFiles:
        """The image files below root."""
        return files_of(root, self.names, self.labels)


def read_listing(path: Path, domain: str, classes: Sequence[str]) -> Listing:
    """Parses lines of domain/class/name and a number; a malformed line becomes a problem."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        return Listing((), (), (Problem(str(path), None, f"cannot be read: {reason_of(error)}"),))
    names, labels, problems = [], [], []
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        if what := _fault(line, domain, classes):
            problems.append(Problem(str(path), index, f"line {index + 1} {what}"))
            continue
        name, number = line.rsplit(maxsplit=1)
        names.append(name)
        labels.append(int(number) - 1)
    return Listing(tuple(names), tuple(labels), tuple(problems))


def listing_text(named: Sequence[tuple[str, int]]) -> str:
    """The content of a listing file of (name, label from 0) pairs."""
    return "".join(f"{name} {label + 1}\n" for name, label in named)


def _fault(line: str, domain: str, classes: Sequence[str]) -> str | None:
    words = line.rsplit(maxsplit=1)
    parts = words[0].split("/")
    if len(words) != 2 or len(parts) != 3 or not words[1].isdecimal():
        return f"is not '{domain}/class/image number': {line.strip()!r}"
    if parts[0] != domain or parts[1] not in classes or parts[2] in ("", ".."):
        return f"is not an image of {domain}: {words[0]!r}"
    number = classes.index(parts[1]) + 1
    return None if int(words[1]) == number else f"gives {parts[1]} the number {words[1]}, but its number is {number}"


def held_out_counts(sizes: Sequence[int], share: Fraction) -> list[int]:
    """How many of each group are held out: the share of the total, rounded once, not per group."""
    exact = [size * share for size in sizes]
    counts = [int(each) for each in exact]
    missing = round(sum(sizes) * share) - sum(counts)
    largest_remainder = sorted(range(len(sizes)), key=lambda group: counts[group] - exact[group])
    for group in largest_remainder[:missing]:
        counts[group] += 1
    return counts


def hold_out(sizes: Sequence[int], share: Fraction, seed: int) -> list[NDArray[np.bool_]]:
    """For each group, which of its samples are held out."""
    masks = []
    for group, (size, count) in enumerate(zip(sizes, held_out_counts(sizes, share), strict=True)):
        mask = np.zeros(size, np.bool_)
        mask[np.random.default_rng((seed, group)).permutation(size)[:count]] = True
        masks.append(mask)
    return masks
