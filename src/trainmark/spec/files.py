"""Writing files so that a reader, or a crash, never sees half of one."""

import json
import os
import tempfile
from collections.abc import Callable
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
