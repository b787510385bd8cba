"""Waiting for what other processes do: as long as a busy machine may need, and no longer than it takes."""

import time
from collections.abc import Callable

# Only a defect is awaited this long: whatever works comes after seconds, or after a minute or two under load.
PATIENCE_S = 300.0


def wait_until(is_so: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Returns as soon as it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain"
        time.sleep(0.02)
