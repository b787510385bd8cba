"""Writing a pack atomically: needed samples, read ahead by threads, written one after another."""

import os
import shutil
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.data.folders import Progress
from trainmark.data.split import Raw, StoredSplit
from trainmark.data.staging.pack import ABSENT, ROW, PackFolder, PackRecord, Selection
from trainmark.machine.storage import is_disk_full
from trainmark.spec.errors import StorageError
from trainmark.spec.files import write_atomically, write_json
from trainmark.spec.units import show_bytes

READERS = 8  # threads: small files on shared storage are latency-bound
MAX_AHEAD = 64  # samples in flight
AHEAD_BYTES = 32 * 2**20  # in flight: staging should not set a worker's peak memory
UNFINISHED = ".unfinished"


def unfinished_folder(folder: Path) -> Path:
    """The folder of a pack while it is written; if its lock is free, its writer has died."""
    return folder.with_name(f".{folder.name}{UNFINISHED}")


def no_progress(done: int, total: int) -> None:
    """Ignores progress."""


def write_pack(split: StoredSplit, wanted: Selection, folder: Path, progress: Progress) -> None:
    """Writes the pack to `folder`, which must not exist, under its lock; leaves nothing on error."""
    unfinished = unfinished_folder(folder)
    try:
        unfinished.mkdir()
        _write_files(split, wanted, PackFolder(unfinished), progress)
        unfinished.rename(folder)
        _sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)  # before the free space is reported
        raise StorageError(_explain(error, folder.parent)) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_files(split: StoredSplit, wanted: Selection, folder: PackFolder, progress: Progress) -> None:
    rows = _copy_samples(split, np.flatnonzero(wanted.needed).tolist(), folder.samples, progress)
    index = BytesIO()
    np.save(index, rows)
    write_atomically(folder.index, lambda file: file.write(index.getbuffer()))
    record = PackRecord(
        fingerprint=wanted.fingerprint,
        num_samples=wanted.num_needed,
        of_samples=len(rows),
        size_bytes=int(np.maximum(rows["length"], 0).sum()),
        index_crc32=zlib.crc32(index.getbuffer()),
    )
    write_json(folder.complete, record.as_json())
    _sync_folder(folder.path)


def _copy_samples(split: StoredSplit, indices: Sequence[int], path: Path, progress: Progress) -> NDArray[np.void]:
    """Writes the samples' bytes; returns the rows of the index."""
    rows = np.zeros(len(split), ROW)
    rows["length"] = ABSENT
    with path.open("wb") as file:
        for done, (index, raw) in enumerate(zip(indices, _read_ahead(split, indices), strict=True), start=1):
            file.write(raw)
            rows[index] = (len(raw), zlib.crc32(raw))
            progress(done, len(indices))
        file.flush()
        os.fsync(file.fileno())
    return rows


def _read_ahead(split: StoredSplit, indices: Sequence[int]) -> Iterator[Raw]:
    """Yields the bytes of each sample, in order, prefetching the next ones."""
    largest = max((split.size_bytes(index) for index in indices), default=0)
    ahead = min(MAX_AHEAD, max(2, AHEAD_BYTES // max(1, largest)))
    in_flight: deque[Future[Raw]] = deque()
    with ThreadPoolExecutor(READERS) as threads:
        for index in indices:
            in_flight.append(threads.submit(split.raw, index))
            if len(in_flight) == ahead:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()


def _sync_folder(folder: Path) -> None:
    """Syncs the folder, so that its names survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(failure: OSError, storage: Path) -> str:
    if is_disk_full(failure):
        free = show_bytes(shutil.disk_usage(storage).free)
        return (
            f"{storage} became full while staging; the samples were removed, which leaves {free} free. "
            "Free more space there, or disable staging (launch.stage=none)."
        )
    return (
        f"Samples cannot be staged in {storage}: {failure}. Choose another folder, or disable staging "
        "(launch.stage=none)."
    )
