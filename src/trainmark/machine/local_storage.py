"""This node's own storage, as the site names it: variables filled in here, and a folder in it that is ours alone."""

import os
import re
import socket
import stat
from pathlib import Path

from trainmark.spec.errors import StorageError


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
