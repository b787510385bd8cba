"""The `trainmark` command: global options, and errors mapped to one line and an exit code."""

import errno
import io
import os
import sys
import traceback

import typer

import trainmark
from trainmark.cli.commands import register
from trainmark.cli.options import explain_usage, open_closed_streams
from trainmark.spec.errors import (
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    EXIT_WRONG_INPUT,
    InterruptedRunError,
    TrainmarkError,
    escape_control_characters,
)

app = typer.Typer(
    name="trainmark",
    help="A benchmark of deep-learning training that scales like LINPACK: "
    "where HPL grows a matrix, trainmark grows an ensemble.",
    epilog="Start with: trainmark run. Then: trainmark show latest. Every command has examples: trainmark run --help.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
register(app)


def print_version(wanted: bool) -> None:
    """Prints the version and exits if requested."""
    if wanted:
        typer.echo(trainmark.__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the full traceback of an error."),
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=print_version
    ),
) -> None:
    """Handles the options before the command."""
    if debug:
        os.environ["TRAINMARK_DEBUG"] = "1"


def main() -> None:
    """Runs the command line."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal shows ? for ×
            stream.reconfigure(errors="replace")
    try:
        # In standalone mode typer prints usage errors on several lines, with pydantic's messages.
        code = app(prog_name="trainmark", standalone_mode=False)
    except (TrainmarkError, InterruptedRunError) as error:
        _fail(str(error), error.exit_code)
    except typer.Abort:
        _fail("Interrupted.", EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_RUN_FAILED)
    except OSError as error:
        advice = " Free some space and try again." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        _fail(f"{error.strerror or error}: {error.filename or 'a file or device'}.{advice}", EXIT_RUN_FAILED)
    except Exception as error:
        if not hasattr(error, "format_message"):  # identifies usage errors in all versions of typer
            raise
        message = explain_usage(error)
        if message.startswith("Usage:"):  # called without a command
            sys.stderr.write(f"{message}\n")
            sys.exit(EXIT_WRONG_INPUT)
        _fail(message, EXIT_WRONG_INPUT)
    else:
        if code == EXIT_INTERRUPTED:  # what typer makes of Ctrl-C
            _fail("Interrupted.", EXIT_INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    if os.environ.get("TRAINMARK_DEBUG"):
        traceback.print_exc()
    sys.stderr.write(f"trainmark: {escape_control_characters(message)}\n")
    sys.exit(code)
