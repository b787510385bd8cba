"""Removes run folders: renamed aside first, so that a kill leaves a whole run or a leftover that is cleared later."""

import errno
import os
import secrets
import shutil
from pathlib import Path

from trainmark.spec.errors import ConfigError, StorageError
from trainmark.spec.files import one_line
from trainmark.spec.run_folder import RunFolder
from trainmark.store.runs import REMOVED, find_run, is_run


def find_own_run(name: str, runs_dir: Path) -> RunFolder:
    """Finds a run that lies in its runs folder itself; a link to a run elsewhere is refused."""
    folder, given = find_run(name, runs_dir), Path(name)
    parent = given.parent if is_run(given) else runs_dir
    if folder.path != parent.resolve() / folder.path.name or given.is_symlink():
        raise ConfigError(f"'{name}' is a link to {folder.path}. Remove the run by that path, or the link with: unlink")
    return folder


def size_of(folder: Path) -> int:
    """Returns the bytes on disk that removing the folder frees: without linked folders and hard-linked files."""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                found = os.lstat(f"{place}/{name}")
            except OSError:
                continue
            if found.st_nlink == 1 or name in folders:
                total += found.st_blocks * 512
    return total


def remove_run(folder: RunFolder) -> int:
    """Removes a run's folder; returns the bytes freed. Raises StorageError if that is not possible."""
    freed = size_of(folder.path)
    aside = folder.path.with_name(f"{REMOVED}{secrets.token_hex(4)}-{folder.run_id[:100]}")
    try:
        if not os.access(folder.path, os.W_OK | os.X_OK):  # could be renamed, but not emptied
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        folder.path.rename(aside)
    except OSError as error:
        raise StorageError(
            f"Run {folder.run_id} cannot be removed: {one_line(error)}. Make {folder.path} and "
            "its parent folder writable."
        ) from error
    try:
        shutil.rmtree(aside)
    except FileNotFoundError:  # another command clears leftovers
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"Run {folder.run_id} was removed, but some of its files are left in {aside}: {one_line(error)}. Remove "
            "that folder."
        ) from error
    return freed


def clear_leftovers(runs_dir: Path) -> None:
    """Removes what killed processes left of runs that were being removed."""
    try:
        with os.scandir(runs_dir) as entries:
            left = [e.path for e in entries if e.name.startswith(REMOVED) and e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
