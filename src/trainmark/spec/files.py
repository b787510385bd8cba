"""Atomic file writes, and one-line descriptions of damaged files."""

import errno
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# .NAME.xxxxxxxx of write_atomically, .NAME.<16 hex digits> of claims, and both
LEFTOVER = re.compile(r"\.+[\w.-]+\.(json|csv|html|svg|pdf|toml)(\.[a-z0-9_]{8}|\.[0-9a-f]{16}(\.[a-z0-9_]{8})?)")


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Replaces the content of `path` atomically, even across a power loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates files with mode 0600; apply the umask instead.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename, error.filename2 = str(path), None  # not the temporary name, or none
        raise


def remove_leftovers(folder: Path, older_than_s: float = 0.0) -> None:
    """Removes what killed processes left of files that they were writing; call it while no other process writes."""
    for path in folder.glob(".*"):
        with suppress(OSError):
            if LEFTOVER.fullmatch(path.name) and time.time() - path.stat().st_mtime >= older_than_s:
                path.unlink()


def read_regular(path: Path, offset: int = 0) -> bytes:
    """Returns the content of a file from a byte on; raises OSError on a pipe or a device, which may block for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            file.seek(offset)
            return file.read()
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` atomically."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path: Path, data: Any) -> None:
    """Writes `data` to `path` as indented JSON; raises on NaN and infinity, which are not JSON."""
    write_text(path, as_json(data))


def as_json(data: Any) -> str:
    """Returns the text that `write_json` writes."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Reads what `write_json` wrote."""
    return json.loads(read_regular(path).decode("utf-8"))


def read_record(path: Path, name: str, fields: Mapping[str, type]) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the object in a JSON file and what is wrong with it, if anything; it must have these fields."""
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None, f"{name} is missing"
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{name} cannot be read: {one_line(error)}"
    if not isinstance(record, dict):
        return None, f"{name} does not hold a JSON object"
    missing = [field for field, kind in fields.items() if not isinstance(record.get(field), kind)]
    return record, f"{name} holds no {', '.join(missing)}" if missing else None


def one_line(error: BaseException) -> str:
    """Returns the error on one line, without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    message = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
