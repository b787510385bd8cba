"""The Data Duplicator: one copy of the needed samples per node, and the split that reads them from it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.folders import Progress
from trainmark.data.split import Raw, Split, StoredSplit
from trainmark.data.staging.pack import ROW, BrokenPackError, Pack, PackFolder, Selection
from trainmark.data.staging.pack_writing import UNFINISHED, no_progress, unfinished_folder, write_pack
from trainmark.machine.storage import check_space
from trainmark.spec.errors import ConfigError, StorageError

SPACE_BESIDE = 2**20  # for the completion record, folders and file-system metadata


class Staged(NamedTuple):
    """A pack, and whether it was reused or written."""

    pack: Pack
    reused: bool
    replaced: str | None  # the fault of the pack that it replaces, if any


def stage(split: StoredSplit, wanted: Selection, storage: Path, progress: Progress = no_progress) -> Staged:
    """Returns a pack of the wanted samples in `storage`: an existing one, or written after checking free space."""
    folder = storage / wanted.pack_name
    with _locked(folder):
        found = _find(wanted, storage)
        if isinstance(found, Pack):
            return Staged(found, reused=True, replaced=None)
        _remove_remains(folder)
        _check_space(split, wanted, storage)
        write_pack(split, wanted, folder, progress)
        return Staged(Pack(PackFolder(folder)), reused=False, replaced=found)


def stage_whole(split: Split | StoredSplit, dataset: str, storage: Path, progress: Progress) -> Staged:
    """Stages all samples of a split, so that any part of it can be used later."""
    if isinstance(split, Split):
        raise ConfigError(f"The dataset '{dataset}' is read into memory before training: there is nothing to stage.")
    everything = Selection(dataset, split.fingerprint(), np.ones(len(split), np.bool_))
    return stage(split, everything, storage, progress)


def find_pack(wanted: Selection, storage: Path) -> Pack:
    """Returns the pack that another process of this node has staged."""
    found = _find(wanted, storage)
    if isinstance(found, Pack):
        return found
    what = "does not exist" if found is None else f"cannot be used: {found}"
    raise StorageError(
        f"Another worker of this node has staged samples, but {storage / wanted.pack_name} {what}. "
        "Set groups.local_storage in the site file to a folder that all workers of a node share."
    )


def _find(wanted: Selection, storage: Path) -> Pack | str | None:
    """Returns the pack of all samples or of these; otherwise the fault of the latter, or None if missing."""
    fault: str | None = None
    for each in (wanted.of_all(), wanted):
        folder = PackFolder(storage / each.pack_name)
        if not folder.path.exists():
            fault = None
            continue
        try:
            return Pack(folder)
        except BrokenPackError as error:
            fault = str(error)
    return fault


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks the pack for writing; the kernel releases the lock if its holder dies."""
    path = folder.with_name(f".{folder.name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be locked: {(error.strerror or str(error)).lower()}. "
            "Choose a folder on the node's own disk, or disable staging (launch.stage=none)."
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _remove_remains(folder: Path) -> None:
    """Removes the pack to be replaced, and unfinished packs whose writers have died."""
    for stale in (folder, unfinished_folder(folder)):  # safe: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    for remains in folder.parent.glob(f".*{UNFINISHED}"):
        lock = remains.with_name(f"{remains.name.removesuffix(UNFINISHED)}.lock")
        with suppress(OSError):  # BlockingIOError: its writer is alive
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(remains, ignore_errors=True)
            finally:
                os.close(descriptor)


def _check_space(split: StoredSplit, wanted: Selection, storage: Path) -> None:
    """Raises if there is too little space for the samples."""
    needed_bytes = sum(split.size_bytes(index) for index in np.flatnonzero(wanted.needed).tolist())
    check_space(
        storage,
        needed_bytes + len(wanted.needed) * ROW.itemsize + SPACE_BESIDE,
        what=f"the {wanted.num_needed:,} samples to be staged take about",
        instead="e.g. by removing packs of earlier runs, or disable staging (launch.stage=none)",
    )


class StagedSplit:
    """The same samples, labels and fingerprint as `split`; bytes come from the pack where it has them."""

    def __init__(self, split: StoredSplit, pack: Pack) -> None:
        self._split = split
        self._pack = pack

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of all samples."""
        return self._split.labels

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self._split.sample_shape

    @property
    def shapes(self) -> NDArray[np.int64] | None:
        """Height and width of every sample, if they differ."""
        return self._split.shapes

    @property
    def offset(self) -> NDArray[np.float32]:
        """The offset of each channel."""
        return self._split.offset

    @property
    def scale(self) -> NDArray[np.float32]:
        """The scale of each channel."""
        return self._split.scale

    def __len__(self) -> int:
        return len(self._split)

    def size_bytes(self, index: int) -> int:
        """The length of `raw` for a sample."""
        return self._split.size_bytes(index)

    def raw(self, index: int) -> Raw:
        """The bytes of a sample, from the pack or the original split."""
        return self._pack.read(index) if index in self._pack else self._split.raw(index)

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """Decodes a sample."""
        return self._split.decode(raw, index, augmentation, seed)

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[Any]:
        """Reads and decodes sample `index`."""
        return self.decode(self.raw(index), index, augmentation, seed)

    def fingerprint(self) -> str:
        """The fingerprint of the original: the data are the same."""
        return self._split.fingerprint()
