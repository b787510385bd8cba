"""Options shared by several commands, messages for usage errors, and standard streams that were closed."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="TRAINMARK_RUNS_DIR", help="Folder in which runs are stored.")
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="TRAINMARK_DATA_DIR",
        help="Folder of generated data, shared by all runs; default: data in --runs-dir.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else there.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, a unique prefix of it, its path, or 'latest'.")
]
DatasetName = Annotated[str, typer.Argument(metavar="WORKLOAD|DATASET", help="See `trainmark list datasets`.")]
DatasetSetting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the dataset, e.g. num_train=100.")
]

DEFAULT_RUNS_DIR = Path("runs")


def explain_usage(error: Any) -> str:
    """Returns the usage error on one line with a pointer to --help, or typer's help text if there were no arguments."""
    message = str(error.format_message()).strip()
    if message.startswith("Usage:"):
        return message
    command = error.ctx.command_path if getattr(error, "ctx", None) else "trainmark"
    from pydantic import ValidationError  # not at the top: it slows down `--help`

    if isinstance(error.__cause__, ValidationError):
        from trainmark.spec.validation_errors import describe_error

        first = error.__cause__.errors()[0]
        names = getattr(getattr(error, "param", None), "opts", None) or ["a value"]
        message = f"{names[0]} {describe_error(first)}, but got {str(first['input'])!r}"
    return f"{message.rstrip('.')}. See: {command} --help"


def open_closed_streams() -> None:
    """Gives streams that were closed (`>&-`) a place: else files that are opened next would take it."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
