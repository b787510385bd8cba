"""Arguments that typer refused, in our own words."""

from typing import Any

from pydantic import ValidationError

from trainmark.spec.wrong_value import what_is_wrong


def explain_usage(error: Any) -> str:
    """One line, with where to look; the help that typer made, where there were no arguments."""
    message = str(error.format_message()).strip()
    if message.startswith("Usage:"):
        return message
    command = error.ctx.command_path if getattr(error, "ctx", None) else "trainmark"
    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        names = getattr(getattr(error, "param", None), "opts", None) or ["a value"]
        message = f"{names[0]} {what_is_wrong(first)}, but got {str(first['input'])!r}"
    return f"{message.rstrip('.')}. See: {command} --help"
