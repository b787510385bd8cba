"""Files that other nodes write: shared storage may show them late, or for a moment not whole.

An NFS client remembers for half a minute or more that a file was not there. It forgets when it changes the folder
itself and learns from the server that another client has changed it, too.
"""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DELAY_S = 6.0  # until what one node wrote can be seen by the others
LOOK_EVERY_S = 0.5


def look_afresh(folder: Path) -> None:
    """What others have written into the folder can be seen here."""
    with suppress(OSError):  # it may be full, or not there yet; then time must do
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".look.")
        os.close(descriptor)
        Path(name).unlink()


def read_late(read: Callable[[], T], folder: Path, patience_s: float = DELAY_S, poll_s: float = 0.05) -> T:
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
            look_afresh(folder)
            looked = now
        time.sleep(poll_s)
