"""Storage: space checked and kept back, a node's own folder, and files of other nodes that NFS shows late."""

import ctypes
import errno
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from trainmark.spec.errors import ConfigError, StorageError
from trainmark.spec.units import show_bytes

RESERVE_BYTES = 256 * 1024


def check_space(
    folder: Path,
    needed_bytes: int,
    *,
    what: str = "this run writes about",
    instead: str = "or choose another place with --runs-dir",
) -> None:
    """Raises, before anything is written, if the file system has less room than is needed."""
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    total, _, free = shutil.disk_usage(existing)
    if total == 0:  # /proc, /sys
        raise ConfigError(f"{folder} cannot hold files: {existing} has no storage behind it. Name another folder.")
    if free < needed_bytes:
        raise StorageError(
            f"{folder} has {show_bytes(free)} free, but {what} {show_bytes(needed_bytes)}. "
            f"Free some space there, {instead}."
        )


def no_space(folder: Path) -> StorageError:
    """The error for a run whose folder can take no more."""
    return StorageError(f"No space is left in {folder}. Free some, then go on with: trainmark resume {folder}")


def flush_file_system(folder: Path) -> None:
    """All files of the folder are on disk, by one call for the whole file system: an fsync each takes milliseconds."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def keep_reserve(path: Path) -> None:
    """A file of real bytes that can be given up when the disk is full (zeros might be stored as a hole)."""
    if not path.exists() or path.stat().st_size < RESERVE_BYTES:  # shorter: a full disk has cut it
        path.write_bytes(os.urandom(RESERVE_BYTES))


def write_from_reserve(reserve: Path, write: Callable[[], None]) -> None:
    """`write` is done; on a full disk it is done in the space that was kept back."""
    try:
        write()
    except OSError as error:
        if not is_disk_full(error):
            raise
        reserve.unlink(missing_ok=True)
        write()


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that a file system or a quota is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


class _WrongPlaceError(Exception):
    """Why a folder cannot be used."""


def own_folder(
    local_storage: str,
    *,
    told_by: str = "groups.local_storage",
    instead: str = "Correct it in the site file, or choose --set launch.stage=none",
) -> Path:
    """The folder on this node's own storage that holds what this user has staged; it is made if it is not there."""
    try:
        return _own_folder(_expanded(local_storage))
    except _WrongPlaceError as error:
        where = f"{told_by} is '{local_storage}', but on {socket.gethostname()} {error}"
        raise StorageError(f"{where}. {instead}.") from error


def _own_folder(root: Path) -> Path:
    # Its owner's alone: in a folder that all may write, such as /tmp, another user's data could have its name.
    folder = root / f"trainmark-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise _WrongPlaceError(f"{folder} cannot be made: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise _WrongPlaceError(f"{folder} is not a folder of this user")
    return folder


def _expanded(local_storage: str) -> Path:
    text = os.path.expandvars(local_storage)
    if unset := re.search(r"\$\{?(\w+)", text):
        raise _WrongPlaceError(f"the variable {unset[1]} is not set")
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise _WrongPlaceError(f"'{path}' is not a path from the root")
    if not path.is_dir():
        raise _WrongPlaceError(f"there is no folder {path}")  # making it could fill the disk below a mount point
    return path


T = TypeVar("T")

DELAY_S = 6.0  # until what one node wrote can be seen by the others
LOOK_EVERY_S = 0.5


def refresh_nfs_cache(folder: Path) -> None:
    """What others have written into the folder can be seen here."""
    with suppress(OSError):  # it may be full, or not there yet; then time must do
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".look.")
        os.close(descriptor)
        Path(name).unlink()


def read_when_visible(read: Callable[[], T], folder: Path, patience_s: float = DELAY_S, poll_s: float = 0.05) -> T:
    """What `read` finds in the folder, once it can be read; after all patience, the reader's own error."""
    begun = looked = time.monotonic()
    while True:
        try:
            return read()
        except (OSError, ValueError):
            now = time.monotonic()
            if now - begun > patience_s:
                raise
        if now - looked > LOOK_EVERY_S:
            refresh_nfs_cache(folder)
            looked = now
        time.sleep(poll_s)
