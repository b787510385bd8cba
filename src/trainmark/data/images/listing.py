"""Files that list the images of a part of a dataset: a line per image, its name and its class counted from 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.data.images.files import ImageFiles, files_of, reason_of
from trainmark.data.split import Problem


@dataclass(frozen=True)
class Listing:
    """The images that a file lists, as domain/class/name with labels from 0, and what is wrong with its lines."""

    names: tuple[str, ...]
    labels: tuple[int, ...]
    problems: tuple[Problem, ...]

    def files(self, root: Path) -> ImageFiles:
        """The image files below root."""
        return files_of(root, self.names, self.labels)


def read_listing(path: Path, domain: str, classes: Sequence[str]) -> Listing:
    """The lines of `path`, each domain/class/name and a number; a wrong line becomes a problem with its number."""
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
    """What such a file holds for (name, label from 0) pairs."""
    return "".join(f"{name} {label + 1}\n" for name, label in named)


def _fault(line: str, domain: str, classes: Sequence[str]) -> str | None:
    words = line.rsplit(maxsplit=1)
    parts = words[0].split("/")
    if len(words) != 2 or len(parts) != 3 or not words[1].isdecimal():
        return f"is no '{domain}/class/image number': {line.strip()!r}"
    if parts[0] != domain or parts[1] not in classes or parts[2] in ("", ".."):
        return f"names no image of {domain}: {words[0]!r}"
    number = classes.index(parts[1]) + 1
    return None if int(words[1]) == number else f"gives {parts[1]} the number {words[1]}, but its number is {number}"
