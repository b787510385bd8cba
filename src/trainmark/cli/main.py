"""The `trainmark` command: gathers the subcommands and turns errors into one line and an exit code."""

import io
import os
import sys
import traceback

import typer

import trainmark
from trainmark.cli import data, flops, list_parts, machine, preflight, report, results, run, score, stored_runs
from trainmark.spec.errors import (
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    EXIT_WRONG_INPUT,
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
app.command("run")(run.run)
app.command("resume")(stored_runs.resume)
app.command("status")(stored_runs.status)
app.command("cancel")(stored_runs.cancel)
app.command("show")(stored_runs.show)
app.command("results")(results.results)
app.command("report")(report.report)
app.command("list")(list_parts.list_parts)
app.command("flops")(flops.flops)
app.command("score")(score.score)
app.add_typer(data.data, name="data")
app.command("machine")(machine.machine)
app.command("preflight")(preflight.preflight)


def print_version(wanted: bool) -> None:
    """Prints the version and ends, if that was asked for."""
    if wanted:
        typer.echo(trainmark.__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    version: bool = typer.Option(
        False, "--version", help="Print the version and end.", is_eager=True, callback=print_version
    ),
) -> None:
    """Reads the options that stand before the command."""
    if debug:
        os.environ["TRAINMARK_DEBUG"] = "1"


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows only ASCII shows ? for ×
            stream.reconfigure(errors="replace")
    try:
        # By itself typer would print usage errors, on several lines and in pydantic's words.
        code = app(prog_name="trainmark", standalone_mode=False)
    except TrainmarkError as error:
        _fail(str(error), error.exit_code)
    except typer.Abort:
        _fail("Interrupted.", EXIT_INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_RUN_FAILED)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or 'a file or device'}.", EXIT_RUN_FAILED)
    except Exception as error:
        if not hasattr(error, "format_message"):  # by which typer's usage errors are known, in all its versions
            raise
        from trainmark.cli.options import explain_usage

        message = explain_usage(error)
        if message.startswith("Usage:"):  # it was called without a command
            sys.stderr.write(f"{message}\n")
            sys.exit(EXIT_WRONG_INPUT)
        _fail(message, EXIT_WRONG_INPUT)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    if os.environ.get("TRAINMARK_DEBUG"):
        traceback.print_exc()
    sys.stderr.write(f"trainmark: {escape_control_characters(message)}\n")
    sys.exit(code)
