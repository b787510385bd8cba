"""Waiting for conditions in other processes."""

import time
from collections.abc import Callable

# Reached only by defects: everything else takes seconds, or a minute or two under load.
TIMEOUT_S = 300.0


def wait_until(holds: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    """Returns as soon as the condition holds; fails after the timeout."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"condition not met within {seconds:g} s"
        time.sleep(0.02)
