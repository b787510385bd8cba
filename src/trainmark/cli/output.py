"""What commands print: one JSON document, or tables for people."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from trainmark.report.console import result_console
from trainmark.report.live import LiveProgress
from trainmark.report.making import making
from trainmark.report.result_table import print_result
from trainmark.spec.errors import RunFailedError
from trainmark.spec.result import Result


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(data, indent=2, allow_nan=False))


def watching() -> LiveProgress:
    """Progress on standard error, so that standard output holds the result alone."""
    return LiveProgress(Console(stderr=True))


def say_making() -> Callable[[int, int], None]:
    """Progress of making data, on standard error."""
    return making(Console(stderr=True))


def say_staging() -> Callable[[int, int], None]:
    """Progress of staging data, on standard error."""
    return making(Console(stderr=True), "staging data")


def say_preparing(what: str) -> Callable[[int, int], None]:
    """Progress of writing what each member needs, on standard error; only of large ensembles."""
    return making(Console(stderr=True), "preparing the run", what, silent_s=2.0)


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
    """An error (exit code 1) that says what is missing and how to go on, unless all members finished."""
    if result.state == "complete":
        return
    finished = sum(member.state == "finished" for member in result.members)
    first, *others = (member for member in result.members if member.state != "finished")
    more = f" (and {len(others)} more, see above)" if others else ""
    raise RunFailedError(
        f"{finished} of {len(result.members)} members finished; member {first.member} {first.state}: {first.reason}"
        f"{more}. If a setting is the cause, start a new run; else mend it and go on with: trainmark resume {run_path}"
    )
