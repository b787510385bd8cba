"""No escape sequences where they are not wanted: NO_COLOR, TERM=dumb, pipes."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from trainmark.report.console import progress_console, result_console
from trainmark.report.live import LiveProgress
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import MemberProgress


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def written(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, **environment: str) -> tuple[str, str]:
    """What a table with a bold heading and the progress of a run write to standard output and standard error."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    out, err = Stream(is_terminal=is_terminal), Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    table = Table("heading", box=None)
    table.add_row("[red]cell[/red]")
    result_console().print(table, style="bold")
    with LiveProgress(progress_console()) as progress:
        progress(RunFolder(Path("runs/one")), lambda: [MemberProgress(0, state="training", epochs=2)])
    return out.getvalue(), err.getvalue()


def test_a_terminal_gets_bold_headings_and_a_live_table(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = written(monkeypatch, is_terminal=True)
    assert "\x1b[1m" in out and "\x1b[" in err


@pytest.mark.parametrize(
    ("is_terminal", "environment"),
    [(True, {"NO_COLOR": "1"}), (True, {"TERM": "dumb"}), (False, {}), (False, {"NO_COLOR": "1"})],
    ids=["NO_COLOR", "TERM=dumb", "pipe", "pipe with NO_COLOR"],
)
def test_text_alone_is_written_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, environment: dict[str, str]
) -> None:
    out, err = written(monkeypatch, is_terminal=is_terminal, **environment)
    assert "\x1b" not in out + err
    assert "heading" in out and "1 training" in err


def test_commands_do_without_streams_that_were_closed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainmark", "list", "studies"]
    for closed, code in ((">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0)):
        done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (code, "")
        assert ("threads" in done.stdout) == (closed == "2>&-")
