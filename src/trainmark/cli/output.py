"""Output of the commands: one JSON document, or tables."""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.report.console import has_width, progress_console, result_console
from trainmark.report.live import LiveProgress, progress_printer
from trainmark.report.result_table import print_result
from trainmark.spec.errors import RunFailedError
from trainmark.spec.result import Result
from trainmark.spec.tags import RunTags


def print_json(data: Any) -> None:
    """Prints one JSON document on standard output."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_pairs(lines: dict[str, str]) -> None:
    """Prints name and text in two columns; on a terminal long lines wrap with a hanging indent."""
    indent = max(map(len, lines), default=0) + 2
    width = result_console().width if has_width() else sys.maxsize
    for name, line in lines.items():
        print(textwrap.fill(f"{name:<{indent}}{line}", width, subsequent_indent=" " * indent, break_on_hyphens=False))


def live_progress() -> LiveProgress:
    """Returns progress on standard error; standard output is reserved for the result."""
    return LiveProgress(progress_console())


def data_progress() -> Callable[[int, int], None]:
    """Returns progress of data generation on standard error."""
    return progress_printer(progress_console())


def staging_progress() -> Callable[[int, int], None]:
    """Returns progress of data staging on standard error."""
    return progress_printer(progress_console(), "staging data")


def bootstrap_progress() -> Callable[[int, int], None]:
    """Returns progress of bootstrap sampling on standard error; silent for small ensembles."""
    return progress_printer(progress_console(), "preparing the run", "bootstraps", silent_s=2.0)


def reading_progress() -> Callable[[int, int], None]:
    """Returns progress of reading stored runs on standard error; silent for few."""
    return progress_printer(progress_console(), "reading results", "runs", silent_s=2.0)


def show_result(result: Result, *, as_json: bool, tags: RunTags | None = None) -> None:
    """Prints the Result on standard output; for people, with the tags of the run."""
    if as_json:
        print(result.as_json(), end="")
    else:
        print_result(result, result_console(), tags)


def end_with_result(result: Result, run_path: Path, *, as_json: bool) -> None:
    """Prints the Result; raises unless it is complete."""
    try:
        show_result(result, as_json=as_json)
    finally:  # also after a broken pipe
        _fail_unless_complete(result, run_path)


def _fail_unless_complete(result: Result, run_path: Path) -> None:
    """Raises (exit code 1) with what is missing and how to resume, unless all members finished."""
    if result.state == "complete":
        return
    finished = sum(member.state == "finished" for member in result.members)
    first, *others = (member for member in result.members if member.state != "finished")
    more = f" (and {len(others)} more, see above)" if others else ""
    raise RunFailedError(
        f"{finished} of {len(result.members)} members finished; member {first.member} {first.state}: {first.reason}"
        f"{more}. If a setting is the cause, start a new run; else fix it and resume with: trainmark resume {run_path}"
    )
