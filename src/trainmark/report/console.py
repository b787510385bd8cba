"""The consoles: results on standard output, progress on standard error."""

import os
import sys

from rich.console import Console

WIDTH_OF_FILES = 200
NARROW = 100  # below this width, columns are closer together


def result_console() -> Console:
    """Returns a console as wide as the terminal or COLUMNS; wide enough not to wrap in files and pipes."""
    return Console(width=None if has_width() else WIDTH_OF_FILES, highlight=False, force_terminal=_is_styled())


def has_width() -> bool:
    """Whether standard output has a width: it is a terminal, or COLUMNS is set."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def progress_console() -> Console:
    """Returns a console on standard error; standard output is reserved for the result."""
    return Console(stderr=True, highlight=False, force_terminal=_is_styled())


def _is_styled() -> bool | None:
    """Returns False if NO_COLOR (no-color.org) or TERM=dumb is set, else None: rich decides."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "") in ("dumb", "unknown")
    return False if is_plain else None  # with NO_COLOR, rich would still write bold
