"""Progress while members train: a live table on a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live

from trainmark.report.progress_table import progress_line, progress_table
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import MemberProgress

EVERY_S = 2.0


def progress_printer(
    console: Console, what: str = "making data", noun: str = "samples", *, silent_s: float = 0.0
) -> Callable[[int, int], None]:
    """Returns a callback (done, total) that prints progress every few seconds and at the end.

    Nothing is printed for work that takes less than `silent_s`.
    """
    next_s = time.monotonic() + silent_s
    has_printed = silent_s == 0

    def print_progress(made: int, total: int) -> None:
        nonlocal next_s, has_printed
        now = time.monotonic()
        if now >= next_s or (made == total and has_printed):
            next_s, has_printed = now + EVERY_S, True
            with suppress(OSError, SystemExit):  # a closed stream must not stop the work
                console.print(f"{what}: {made:,} of {total:,} {noun}", highlight=False)

    return print_progress


# Refreshing uses the cores that are being measured, so it is rare once members train.
REFRESH_S = 1.0
LINE_INTERVAL_S = 10.0
ENDED = ("finished", "failed", "stopped")

Read = Callable[[], list[MemberProgress]]


class LiveProgress:
    """Progress display, called at every poll of each run; rate-limited."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live: Live | None = None
        self._started = clock()
        self._next: dict[RunFolder, float] = {}
        self._members: dict[RunFolder, list[MemberProgress]] = {}
        self._last_line: dict[RunFolder, tuple[str, float]] = {}
        self._is_silent = False

    def __enter__(self) -> "LiveProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, folder: RunFolder, read: Read) -> None:
        """Shows the run's members if a refresh is due."""
        now = self._clock()
        if self._is_silent or now < self._next.get(folder, -math.inf):
            return
        try:
            if folder not in self._next:
                self._console.print(f"run {folder.run_id} in {folder.path}", soft_wrap=True, highlight=False)
            self._members[folder] = read()
            self._show(now, folder)
        except (OSError, SystemExit):
            # A closed stream (on which rich exits) must not stop the run.
            self._is_silent = True

    def _show(self, now: float, folder: RunFolder) -> None:
        members = self._members[folder]
        shown = [each for each, of_run in self._members.items() if each == folder or not _have_ended(of_run)]
        if self._console.is_terminal:
            self._next[folder] = now + REFRESH_S
            self._show_tables(shown)
            return
        self._next[folder] = now + (REFRESH_S if _are_starting(members) else LINE_INTERVAL_S)
        line = progress_line(members) if len(shown) == 1 else f"{folder.run_id}: {progress_line(members)}"
        last_line, last_s = self._last_line.get(folder, ("", -math.inf))
        if line != last_line or now - last_s >= LINE_INTERVAL_S:
            self._last_line[folder] = line, now
            self._console.print(f"[{now - self._started:5.0f} s] {line}", soft_wrap=True, markup=False)

    def _show_tables(self, folders: list[RunFolder]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        most_rows = max(1, self._console.height // len(folders) - 4)
        tables = [progress_table(self._members[folder], most_rows=most_rows) for folder in folders]
        named = [part for folder, table in zip(folders, tables, strict=True) for part in (folder.run_id, table)]
        self._live.update(Group(*named) if len(folders) > 1 else tables[0], refresh=True)


def _have_ended(members: list[MemberProgress]) -> bool:
    return all(member.state in ENDED for member in members)


def _are_starting(members: list[MemberProgress]) -> bool:
    """Whether members are starting or warming up, and none is being measured yet."""
    trains = any(member.state == "training" and not member.phase for member in members)
    return not trains and any(member.state == "starting" or member.phase for member in members)
