"""Writing files so that a reader, or a crash, never sees half of one, and saying what is wrong with damaged ones."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """`path` holds either its old content or all of the new, even after a power loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)  # the name that the caller gave
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; group and others get what the umask allows.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`path` holds `text`."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path: Path, data: Any) -> None:
    """`path` holds `data` as indented JSON; NaN and infinity are refused, they are not JSON."""
    write_text(path, as_json(data))


def as_json(data: Any) -> str:
    """The text that `write_json` writes."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_record(path: Path, name: str, fields: Mapping[str, type]) -> tuple[dict[str, Any] | None, str | None]:
    """The object in a JSON file, and in words that call it `name` what is wrong with it; it must have these fields."""
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
    """An error in one line, without the path, which the reader knows."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    words = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
