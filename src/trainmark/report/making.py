"""Progress of making or copying a dataset: a line now and then."""

import time
from collections.abc import Callable

from rich.console import Console

EVERY_S = 2.0


def making(console: Console, what: str = "making data") -> Callable[[int, int], None]:
    """A function that takes how many samples are done, of how many, and prints it every few seconds and at the end."""
    last_s = -EVERY_S

    def say(made: int, total: int) -> None:
        nonlocal last_s
        if made == total or time.monotonic() - last_s >= EVERY_S:
            last_s = time.monotonic()
            console.print(f"{what}: {made:,} of {total:,} samples", highlight=False)

    return say
