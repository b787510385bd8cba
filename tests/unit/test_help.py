"""The help of every command: examples stay as they are written, on lines of their own, at any width."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from trainmark.cli.main import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def shown_help(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    command = COMMANDS[name]
    text: str = command.get_help(command.make_context(f"trainmark {name}", ["--help"], resilient_parsing=True))
    return text.splitlines()


@pytest.mark.parametrize("width", [80, 50])
@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_shown_line_by_line(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = inspect.cleandoc(COMMANDS[name].callback.__doc__).partition("Examples:\n")[2].splitlines()
    assert any(f"trainmark {name}" in line for line in written)
    assert all(line.startswith("  ") for line in written)
    lines = shown_help(name, width, monkeypatch)
    first = lines.index("  Examples:") + 1
    assert lines[first : first + len(written)] == [f"  {line}" for line in written]
    assert all(len(line) <= 80 for line in lines)


def test_the_list_of_commands_cuts_no_sentence_off() -> None:
    for name, command in COMMANDS.items():
        short = command.get_short_help_str(limit=65)  # what is left of 80 columns
        assert short.endswith(".") and not short.endswith(("...", "e.g.")), name
