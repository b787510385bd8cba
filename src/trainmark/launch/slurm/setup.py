"""The site's setup lines inside a job: a line that fails is named in the job's log, and is found there again."""

import re
from pathlib import Path

from trainmark.launch.blame import lines_with_words

FAILED = "trainmark: setup failed with exit code"
REPORT = re.compile(rf"{FAILED} (\d+): (.*)")


def setup_lines(setup: tuple[str, ...], *, at_exit: str = "") -> list[str]:
    """The lines, with a report of each that fails; `at_exit` is done if one of them ends the script."""
    if not setup:
        return []
    report = f'echo "{FAILED} $status: $BASH_COMMAND" >&2'
    # A failing line may be harmless, so the script goes on; what fails inside of a sourced file is that file's affair.
    # Traps of the site's own may replace these.
    return [
        "in_setup=${#BASH_SOURCE[@]}",
        f"trap 'status=$?; [ \"$in_setup\" != ${{#BASH_SOURCE[@]}} ] || {report}' ERR",
        f"trap 'status=$?; [ -z \"$in_setup\" ] || {{ {report}; {at_exit or ':'}; }}' EXIT",
        *setup,
        "set +e; in_setup=",
    ]


def failed_setup(printed: list[str]) -> str | None:
    """The first line of setup that failed, and what it printed, from what a job printed; None: none failed."""
    for number, line in enumerate(printed):
        if found := REPORT.fullmatch(line):
            words = f"; it printed: {printed[number - 1]}" if number else ""
            return f"setup failed with exit code {found[1]}: {found[2]}{words}"
    return None


def explain_setup(log: Path) -> str | None:
    """The same, from a job's log, with its name."""
    failure = failed_setup(lines_with_words(log))
    return None if failure is None else f"{failure} (log: {log})"
