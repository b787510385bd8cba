"""Progress while members train: a live table on a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.live import Live

from trainmark.report.progress_table import progress_line, progress_table
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import MemberProgress

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


# Looking costs time on the very cores that are being measured, so it is done seldom once members train.
LOOK_S = 1.0
LINES_S = 10.0

Read = Callable[[], list[MemberProgress]]


class LiveProgress:
    """Called at every poll of the launcher; shows something only when it is time to."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live: Live | None = None
        self._started = clock()
        self._next: float | None = None
        self._last_line = ""
        self._last_line_s = -math.inf

    def __enter__(self) -> "LiveProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, folder: RunFolder, read: Read) -> None:
        """Shows the members, if the last time is long enough ago."""
        now = self._clock()
        if self._next is not None and now < self._next:
            return
        try:
            if self._next is None:
                self._console.print(f"run {folder.run_id} in {folder.path}", soft_wrap=True, highlight=False)
            self._show(now, read())
        except (OSError, SystemExit):
            # The reader is gone (rich ends a program for that); a run is worth more than its progress lines.
            self._next = math.inf

    def _show(self, now: float, members: list[MemberProgress]) -> None:
        if self._console.is_terminal:
            self._next = now + LOOK_S
            self._show_table(members)
            return
        self._next = now + (LOOK_S if _are_starting(members) else LINES_S)
        line = progress_line(members)
        if line != self._last_line or now - self._last_line_s >= LINES_S:
            self._last_line, self._last_line_s = line, now
            self._console.print(f"[{now - self._started:5.0f} s] {line}", soft_wrap=True, markup=False)

    def _show_table(self, members: list[MemberProgress]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(progress_table(members, most_rows=max(1, self._console.height - 4)), refresh=True)


def _are_starting(members: list[MemberProgress]) -> bool:
    """Whether members start or make their first steps, and none of them is being measured yet."""
    trains = any(member.state == "training" and not member.phase for member in members)
    return not trains and any(member.state == "starting" or member.phase for member in members)
