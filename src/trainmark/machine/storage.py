"""Storage: free and reserved space, node-local folders, and stale NFS caches."""

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
    instead: str = "or choose another --runs-dir",
) -> None:
    """Raises if the file system has less free space than needed."""
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    total, _, free = shutil.disk_usage(existing)
    if total == 0:  # /proc, /sys
        raise ConfigError(f"{folder} cannot hold files: {existing} is a pseudo file system. Name another folder.")
    if free < needed_bytes:
        raise StorageError(
            f"{folder} has {show_bytes(free)} free, but {what} {show_bytes(needed_bytes)}. Free some space, {instead}."
        )


def no_space(folder: Path, command: str = "trainmark resume") -> StorageError:
    """Returns the error for a run or study whose disk is full."""
    return StorageError(f"No space left in {folder}. Free some, then continue with: {command} {folder}")


def flush_file_system(folder: Path) -> None:
    """Flushes the folder's file system to disk in one call: an fsync per file takes milliseconds each."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def keep_reserve(path: Path) -> None:
    """Reserves disk space to be released when the disk is full, as random bytes: zeros might become a sparse file."""
    if not path.exists() or path.stat().st_size < RESERVE_BYTES:  # shorter: truncated on a full disk
        path.write_bytes(os.urandom(RESERVE_BYTES))


def write_from_reserve(reserve: Path, write: Callable[[], None]) -> None:
    """Calls `write`; on a full disk releases the reserve and retries."""
    try:
        write()
    except OSError as error:
        if not is_disk_full(error):
            raise
        reserve.unlink(missing_ok=True)
        write()


def is_disk_full(error: BaseException) -> bool:
    """Whether an error or one of its causes is a full disk or quota."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


class _UnusableFolderError(Exception):
    """Why a folder cannot be used."""


def user_staging_folder(
    local_storage: str,
    *,
    setting: str = "groups.local_storage",
    instead: str = "Correct it in the site file, or choose --set launch.stage=none",
) -> Path:
    """Returns this user's staging folder on node-local storage, created if missing."""
    try:
        return _create_private(_expanded(local_storage))
    except _UnusableFolderError as error:
        where = f"{setting} is '{local_storage}', but on {socket.gethostname()} {error}"
        raise StorageError(f"{where}. {instead}.") from error


def _create_private(root: Path) -> Path:
    # Private to its owner: in a world-writable folder such as /tmp another user could have created it.
    folder = root / f"trainmark-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise _UnusableFolderError(f"{folder} cannot be created: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise _UnusableFolderError(f"{folder} is not a folder owned by this user")
    return folder


def _expanded(local_storage: str) -> Path:
    text = os.path.expandvars(local_storage)
    if unset := re.search(r"\$\{?(\w+)", text):
        raise _UnusableFolderError(f"the variable {unset[1]} is not set")
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise _UnusableFolderError(f"'{path}' is not an absolute path")
    if not path.is_dir():
        raise _UnusableFolderError(f"{path} does not exist")  # creating it could fill the disk under a mount point
    return path


T = TypeVar("T")

NFS_CACHE_S = 6.0  # until files written by one node are visible to the others
REFRESH_EVERY_S = 0.5


def refresh_nfs_cache(folder: Path) -> None:
    """Makes files that other nodes wrote into the folder visible, by changing the folder."""
    with suppress(OSError):  # full or missing: then the cache has to expire
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".look.")
        os.close(descriptor)
        Path(name).unlink()


def read_when_visible(read: Callable[[], T], folder: Path, timeout_s: float = NFS_CACHE_S, poll_s: float = 0.05) -> T:
    """Retries `read` until it succeeds; raises its error after the timeout."""
    started = refreshed = time.monotonic()
    while True:
        try:
            return read()
        except (OSError, ValueError):
            now = time.monotonic()
            if now - started > timeout_s:
                raise
        if now - refreshed > REFRESH_EVERY_S:
            refresh_nfs_cache(folder)
            refreshed = now
        time.sleep(poll_s)
