"""Space on a file system: checked before a run, and some kept back so that its Result can always be written."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

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
