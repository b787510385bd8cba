"""The console on which results are shown."""

import os

from rich.console import Console

WIDTH_OF_FILES = 200


def result_console() -> Console:
    """As wide as the terminal; in a file or pipe wide enough that nothing is wrapped, unless COLUMNS says otherwise."""
    console = Console(highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(width=WIDTH_OF_FILES, highlight=False)
