"""Atomic file writes, and one-line descriptions of damaged files."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Replaces the content of `path` atomically, even across a power loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)  # not the temporary name
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates files with mode 0600; apply the umask instead.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
    return json.loads(path.read_text(encoding="utf-8"))


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
