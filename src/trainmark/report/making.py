"""Progress of making, copying or preparing many things: a line now and then."""

import time
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console

EVERY_S = 2.0


def making(
    console: Console, what: str = "making data", noun: str = "samples", *, silent_s: float = 0.0
) -> Callable[[int, int], None]:
    """A function that takes how many are done, of how many, and prints it every few seconds and at the end.

    What is done within `silent_s` is not reported.
    """
    next_s = time.monotonic() + silent_s
    has_printed = silent_s == 0

    def say(made: int, total: int) -> None:
        nonlocal next_s, has_printed
        now = time.monotonic()
        if now >= next_s or (made == total and has_printed):
            next_s, has_printed = now + EVERY_S, True
            with suppress(OSError, SystemExit):  # of a closed stream; the work itself goes on
                console.print(f"{what}: {made:,} of {total:,} {noun}", highlight=False)

    return say
