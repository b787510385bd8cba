"""What commands print: one JSON document, or tables for people."""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.report.console import has_width, progress_console, result_console
from trainmark.report.live import LiveProgress, making
from trainmark.report.result_table import print_result
from trainmark.spec.errors import RunFailedError
from trainmark.spec.result import Result


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_pairs(lines: dict[str, str]) -> None:
    """A line each, the names in a column; on a terminal the rest of a long line goes on below its beginning."""
    indent = max(map(len, lines), default=0) + 2
    width = result_console().width if has_width() else sys.maxsize
    for name, line in lines.items():
        print(textwrap.fill(f"{name:<{indent}}{line}", width, subsequent_indent=" " * indent, break_on_hyphens=False))


def watching() -> LiveProgress:
    """Progress on standard error, so that standard output holds the result alone."""
    return LiveProgress(progress_console())


def data_progress() -> Callable[[int, int], None]:
    """Progress of making data, on standard error."""
    return making(progress_console())


def staging_progress() -> Callable[[int, int], None]:
    """Progress of staging data, on standard error."""
    return making(progress_console(), "staging data")


def bootstrap_progress() -> Callable[[int, int], None]:
    """Progress of drawing the members' bootstraps, on standard error; only of large ensembles."""
    return making(progress_console(), "preparing the run", "bootstraps", silent_s=2.0)


def show_result(result: Result, *, as_json: bool) -> None:
    """The Result on standard output."""
    if as_json:
        print(result.as_json(), end="")
    else:
        print_result(result, result_console())


def end_with_result(result: Result, run_path: Path, *, as_json: bool) -> None:
    """The Result on standard output, and an error unless it is complete."""
    try:
        show_result(result, as_json=as_json)
    finally:  # a reader that has gone does not make a failed run a good one
        _fail_unless_complete(result, run_path)


def _fail_unless_complete(result: Result, run_path: Path) -> None:
    """Raises (exit code 1), saying what is missing and how to go on, unless all members finished."""
    if result.state == "complete":
        return
    finished = sum(member.state == "finished" for member in result.members)
    first, *others = (member for member in result.members if member.state != "finished")
    more = f" (and {len(others)} more, see above)" if others else ""
    raise RunFailedError(
        f"{finished} of {len(result.members)} members finished; member {first.member} {first.state}: {first.reason}"
        f"{more}. If a setting is the cause, start a new run; else fix it and go on with: trainmark resume {run_path}"
    )
