"""The consoles on which trainmark writes: results on standard output, progress on standard error."""

import os
import sys

from rich.console import Console

WIDTH_OF_FILES = 200
NARROW = 100  # below this, tables leave less room between columns


def result_console() -> Console:
    """As wide as the terminal; in a file or pipe wide enough that nothing is wrapped, unless COLUMNS says otherwise."""
    return Console(width=None if has_width() else WIDTH_OF_FILES, highlight=False, force_terminal=_is_styled())


def has_width() -> bool:
    """Whether standard output has a width at which lines end: it is a terminal, or COLUMNS says so."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def progress_console() -> Console:
    """Standard error, so that standard output holds the result alone."""
    return Console(stderr=True, highlight=False, force_terminal=_is_styled())


def _is_styled() -> bool | None:
    """No, also on a terminal, if NO_COLOR (no-color.org) or TERM=dumb asks for text alone; None: rich decides."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "") in ("dumb", "unknown")
    return False if is_plain else None  # rich takes NO_COLOR for colours alone, and would go on to write bold
