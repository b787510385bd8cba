"""Progress while members train: a live table on a terminal, a plain line now and then elsewhere."""

import math
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live

from trainmark.report.progress_table import progress_line, progress_table
from trainmark.spec.progress import MemberProgress
from trainmark.spec.run_folder import RunFolder

# Looking costs time on the very cores that are being measured, so it is done seldom.
TERMINAL_S = 1.0
LINES_S = 10.0


class LiveProgress:
    """Called at every poll of the launcher; shows something only when it is time to."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._started = time.monotonic()
        self._next = 0.0

    def __enter__(self) -> "LiveProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, folder: RunFolder, read: Callable[[], list[MemberProgress]]) -> None:
        """Shows the members, if the last time is long enough ago."""
        now = time.monotonic()
        if now < self._next:
            return
        try:
            self._show(now, folder, read)
        except (OSError, SystemExit):
            # Nobody reads any more (rich ends a program for that); a run is worth more than its progress lines.
            self._next = math.inf

    def _show(self, now: float, folder: RunFolder, read: Callable[[], list[MemberProgress]]) -> None:
        if self._next == 0.0:
            self._console.print(f"run {folder.run_id} in {folder.path}", soft_wrap=True, highlight=False)
        if self._console.is_terminal:
            self._next = now + TERMINAL_S
            self._show_table(read())
        else:
            self._next = now + LINES_S
            self._console.print(f"[{now - self._started:5.0f} s] {progress_line(read())}", soft_wrap=True, markup=False)

    def _show_table(self, members: list[MemberProgress]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(progress_table(members, most_rows=max(1, self._console.height - 4)), refresh=True)
