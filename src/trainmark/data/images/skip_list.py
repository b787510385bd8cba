"""Skip lists: text files that name, one per line and relative to data.path, the image files to leave out."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.files import ImageFiles, reason_of
from trainmark.spec.errors import DataError, StorageError
from trainmark.spec.files import write_atomically


def read_skip_list(path: str | None) -> frozenset[bytes]:
    """The names in the list; none without one."""
    if path is None:
        return frozenset()
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}, the list of files to leave out, cannot be read: {reason_of(error)}. Check --set data.skip; "
            "`trainmark data check --skip-list FILE` writes such a list."
        ) from error
    return frozenset(name for line in content.split(b"\n") if (name := line.removesuffix(b"\r")))


def write_skip_list(path: Path, names: Iterable[str]) -> int:
    """Writes the names, atomically; returns how many."""
    lines = sorted({os.fsencode(name) for name in names})
    if strange := [name for name in lines if b"\n" in name]:
        raise DataError(f"The name of {os.fsdecode(strange[0])!r} has a line break, so no list can hold it. Rename it.")
    try:
        write_atomically(path, lambda file: file.write(b"".join(line + b"\n" for line in lines)))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {reason_of(error)}. Choose another --skip-list.") from error
    return len(lines)


def is_skipped(files: ImageFiles, skipped: frozenset[bytes]) -> NDArray[np.bool_]:
    """Which of the files the list names."""
    if not skipped or not len(files):
        return np.zeros(len(files), np.bool_)
    return np.isin(files.names, np.array(sorted(skipped), np.bytes_))
