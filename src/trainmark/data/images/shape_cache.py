"""Heights and widths of image files, read from their headers by threads, and kept in a file between runs."""

import hashlib
import os
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError
from trainmark.data.images.files import ImageFiles, open_regular, reason_of
from trainmark.data.images.headers import Limits, open_image, seen_shape
from trainmark.data.images.resized import HOW_TO_SKIP, Sizing
from trainmark.data.images.stored import IN_FLIGHT
from trainmark.spec.errors import DataError
from trainmark.spec.files import write_atomically

THREADS = 16  # headers on shared storage are latency-bound
FORMAT = 1  # version of the file format; part of the key
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)  # raised for damaged files


def read_shapes(files: ImageFiles, sizing: Sizing, limits: Limits) -> NDArray[np.int64]:
    """Height and width of every file, upright, (n, 2); raises if one cannot be used."""

    def shape_of(index: int) -> tuple[int, int]:
        try:
            shape = _read_header(files.path(index))
            fault = limits.fault(shape, sizing.seen_of(shape))
        except UnreadableImageError as error:
            fault = str(error)
        if fault is not None:
            raise DataError(f"{files.path(index)} (sample {index}) cannot be used: {fault}. {HOW_TO_SKIP}")
        return shape

    found: list[tuple[int, int]] = []
    with ThreadPoolExecutor(THREADS) as threads:
        for start in range(0, len(files), IN_FLIGHT):
            found += threads.map(shape_of, range(start, min(start + IN_FLIGHT, len(files))))
    return np.array(found, np.int64).reshape(-1, 2)


def _read_header(path: Path) -> tuple[int, int]:
    try:
        with open_regular(path) as file:
            return seen_shape(open_image(file))
    except OSError as error:
        raise UnreadableImageError(reason_of(error)) from error


class ShapeCache(NamedTuple):
    """The file in `folder` that keeps the shapes of these files, found by their names and sizes."""

    folder: Path
    key: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"shapes-{self.key[:16]}.npz"

    def read(self, count: int) -> NDArray[np.int64] | None:
        """The shapes of `count` images; None if there is no such file, or it is damaged or of other images."""
        try:
            with np.load(self.path, allow_pickle=False) as kept:  # a zip file: its checksums are verified
                shapes: NDArray[np.int64] = kept["shapes"]
                is_ours = str(kept["key"]) == self.key
        except UNREADABLE:
            return None
        is_ours = is_ours and shapes.shape == (count, 2) and shapes.dtype == np.int64 and bool((shapes > 0).all())
        return shapes if is_ours else None

    def write(self, shapes: NDArray[np.int64]) -> None:
        """Keeps the shapes; no-op if the folder cannot be written."""
        with suppress(OSError):
            write_atomically(self.path, lambda file: np.savez(file, shapes=shapes, key=np.array(self.key)))


def shape_cache(folder: str | None, files: ImageFiles) -> ShapeCache | None:
    """The cache of these files; None without a folder."""
    if folder is None:
        return None
    digest = hashlib.sha256(f"{FORMAT}\0{os.fspath(files.root)}\0".encode(errors="surrogateescape"))
    digest.update(b"\0".join(files.names.tolist()))
    digest.update(files.sizes_bytes.astype("<i8").tobytes())
    return ShapeCache(Path(folder), digest.hexdigest())
