"""Pack: samples of a split in one file on node-local storage, with index and completion record."""

import hashlib
import mmap
import os
import socket
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.errors import DataError
from trainmark.spec.files import read_json

FORMAT = 1  # version of the file format; part of the name


@dataclass(frozen=True)
class Selection:
    """A dataset by name and fingerprint, and which of its samples are needed."""

    dataset: str
    fingerprint: str
    needed: NDArray[np.bool_]

    @property
    def num_needed(self) -> int:
        """The number of needed samples."""
        return int(np.count_nonzero(self.needed))

    @property
    def pack_name(self) -> str:
        """The same for the same samples of the same data, on any node and in any run."""
        key = f"{FORMAT} {self.fingerprint} {len(self.needed)} ".encode() + np.packbits(self.needed).tobytes()
        plain = self.dataset.rpartition(":")[2]  # a plug-in's name includes its module
        return f"{plain}-{hashlib.blake2b(key, digest_size=8).hexdigest()}"

    def of_all(self) -> "Selection":
        """All samples of the same data."""
        return Selection(self.dataset, self.fingerprint, np.ones_like(self.needed))


ROW = np.dtype([("length", "<i8"), ("crc32", "<u4")])  # one row per sample of the split
ABSENT = -1  # the length of a sample that is not in the pack
UNREADABLE = (OSError, ValueError, TypeError, KeyError)  # what reading a damaged record or index raises


class BrokenPackError(Exception):
    """A pack cannot be used; the message is the reason."""


@dataclass(frozen=True)
class PackFolder:
    """The files of a pack."""

    path: Path

    @property
    def samples(self) -> Path:
        """The bytes of the samples, concatenated in index order."""
        return self.path / "samples"

    @property
    def index(self) -> Path:
        """Length and checksum of every sample."""
        return self.path / "index.npy"

    @property
    def complete(self) -> Path:
        """The completion record: exists if and only if all of the pack is on disk."""
        return self.path / "complete.json"


@dataclass(frozen=True)
class PackRecord:
    """The content of a pack's completion record."""

    fingerprint: str
    num_samples: int
    of_samples: int
    size_bytes: int
    index_crc32: int

    def as_json(self) -> dict[str, Any]:
        """The completion record's content."""
        return asdict(self)


class Pack:
    """The samples of a pack, readable by this process and those that it forks."""

    def __init__(self, folder: PackFolder) -> None:
        """Opens the pack; raises BrokenPackError if record, index or size do not match."""
        self.folder = folder
        self.record, rows = _read_index(folder)
        self._lengths = np.ascontiguousarray(rows["length"])
        self._checksums = np.ascontiguousarray(rows["crc32"])
        self._offsets = np.cumsum(np.maximum(self._lengths, 0)) - np.maximum(self._lengths, 0)
        # One byte per sample, in memory shared by forked readers: each sample is verified once.
        self._checked: NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, len(rows)), np.uint8)
        try:
            self._file = folder.samples.open("rb", buffering=0)
            size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise BrokenPackError(f"its samples cannot be read: {error}") from error
        if size != self.record.size_bytes:
            raise BrokenPackError(f"its samples take {size:,} bytes, but should take {self.record.size_bytes:,}")

    def __contains__(self, index: int) -> bool:
        return bool(self._lengths[index] != ABSENT)

    def read(self, index: int) -> memoryview:
        """Reads the bytes of a sample, verifying its checksum on first use."""
        # numpy uses huge pages: for a sample of 54 MiB, 15 ms instead of 30.
        content = np.empty(int(self._lengths[index]), np.uint8).data
        try:
            num_read = self._read_into(content, int(self._offsets[index]))
        except OSError as error:
            raise self._damaged(index, f"cannot be read: {error.strerror}") from error
        if num_read < len(content):
            raise self._damaged(index, f"only {num_read:,} of its {len(content):,} bytes are left")
        if not self._checked[index]:
            if zlib.crc32(content) != self._checksums[index]:
                raise self._damaged(index, "its bytes do not match their checksum")
            self._checked[index] = 1
        return content

    def _read_into(self, content: memoryview, offset: int) -> int:
        """Returns the number of bytes read; preadv, since forked readers share the file position."""
        done = 0
        while done < len(content):  # one call returns at most 2 GiB
            got = os.preadv(self._file.fileno(), [content[done:]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def _damaged(self, index: int, what: str) -> DataError:
        with suppress(OSError):  # without its record the pack is not reused
            self.folder.complete.unlink()
        return DataError(
            f"{self.folder.samples} on {socket.gethostname()}, sample {index}: {what}. The next attempt stages the "
            "samples again (trainmark resume). If this recurs, the storage is failing."
        )

    def __getstate__(self) -> PackFolder:
        return self.folder

    def __setstate__(self, folder: PackFolder) -> None:
        self.__init__(folder)  # type: ignore[misc]


def _read_index(folder: PackFolder) -> tuple[PackRecord, NDArray[np.void]]:
    try:
        record = PackRecord(**read_json(folder.complete))
    except FileNotFoundError:
        raise BrokenPackError("it has no completion record") from None
    except UNREADABLE as error:
        raise BrokenPackError(f"its completion record cannot be read: {error}") from error
    try:
        content = folder.index.read_bytes()
        if zlib.crc32(content) != record.index_crc32:
            raise BrokenPackError("its index does not match its checksum")
        rows: NDArray[np.void] = np.load(BytesIO(content), allow_pickle=False)
    except UNREADABLE as error:
        raise BrokenPackError(f"its index cannot be read: {error}") from error
    return record, rows
