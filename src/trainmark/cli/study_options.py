"""Commands of studies and their options: those of every study, and one per axis."""

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command as click_command

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, DataDir, RunsDir
from trainmark.spec.errors import TrainmarkError

if TYPE_CHECKING:
    from trainmark.studies.study import Axis


def _common(
    workload: Annotated[str | None, typer.Option(help="What to train: see `trainmark list workloads`.")] = None,
    size: Annotated[
        str | None, typer.Option(help="tiny (default): short runs; full: as long as the document's.")
    ] = None,
    launcher: Annotated[str | None, typer.Option(help="How jobs are started: see `trainmark list launchers`.")] = None,
    site: Annotated[Path | None, typer.Option(help="TOML file with nodes and slots; default: this machine.")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs per point, interleaved; default: the study's.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first round and of the order of points.")] = 1,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of all runs.")
    ] = None,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Each axis as short as possible, one run per point.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List points, runs and node-hours; write nothing.")
    ] = False,
    json: AsJson = False,
) -> None:
    """The options of every study."""


def common_options() -> list[Parameter]:
    """Returns the options of every study as parameters of commands that are made at run time."""
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in signature(_common).parameters.values()]


def axis_option(axis: "Axis") -> Parameter:
    """Returns an axis as an option."""
    unnamed = [name for name in axis.choices() if name not in axis.help] if axis.choices else []
    names = f" Of: {', '.join(axis.choices())}." if axis.choices and unnamed else ""
    option = typer.Option(f"--{axis.name}", metavar="LIST", help=f"Axis: {axis.help}.{names}")
    return Parameter(
        axis_argument(axis.name), Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[list[str] | None, option]
    )


def example_of(axis: "Axis") -> str:
    """Returns values to type; empty if they depend on the machine or the user's files."""
    if axis.choices:
        return ",".join(list(axis.choices())[:2])
    return {int: "1,2", float: "0.5,1"}.get(axis.kind, "")


def axis_argument(axis: str) -> str:
    """Returns the name of the parameter that holds an axis."""
    return f"axis_{axis.replace('-', '_')}"


def broken_command(name: str, error: TrainmarkError) -> Any:
    """Returns the command of a study that cannot be loaded, which says why."""

    def command() -> None:
        raise error

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return command_alone(command, name, help=f"(cannot be used: {error})", context_settings=anything)


def command_alone(command: Callable[..., None], name: str, **options: Any) -> Any:
    """Returns a function as a command of its own."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, **options)(command)
    return click_command(alone)
