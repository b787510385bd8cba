"""This node's own storage, as the site names it: variables filled in here, and a folder in it that is ours alone."""

import os
import re
import socket
import stat
from pathlib import Path

from trainmark.spec.errors import StorageError


def own_folder(local_storage: str) -> Path:
    """The folder on this node's own storage that holds what this user has staged; it is made if it is not there."""
    root = _expanded(local_storage)
    # Its owner's alone: in a folder that all may write, such as /tmp, somebody else's data could lie under its name.
    folder = root / f"trainmark-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise _wrong(local_storage, f"{folder} cannot be made: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise _wrong(local_storage, f"{folder} is not a folder of this user")
    return folder


def _expanded(local_storage: str) -> Path:
    text = os.path.expandvars(local_storage)
    if unset := re.search(r"\$\{?(\w+)", text):
        raise _wrong(local_storage, f"the variable {unset[1]} is not set")
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise _wrong(local_storage, f"'{path}' is not a path from the root")
    if not path.is_dir():
        raise _wrong(local_storage, f"there is no folder {path}")  # making it could fill the disk below a mount point
    return path


def _wrong(local_storage: str, what: str) -> StorageError:
    return StorageError(
        f"groups.local_storage is '{local_storage}', but on {socket.gethostname()} {what}. "
        "Correct it in the site file, or choose --set launch.stage=none."
    )
