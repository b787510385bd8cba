"""`trainmark study`: a command per study, made from its axes; resume, show and report of stored ones."""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from trainmark.cli import stored_studies
from trainmark.cli.study_options import (
    axis_argument,
    axis_option,
    broken_command,
    command_alone,
    common_options,
    example_of,
)
from trainmark.spec.errors import TrainmarkError

if TYPE_CHECKING:
    from trainmark.studies.study import Study

MAX_EXAMPLE = 40  # characters of flags that fit into a line of help


class StudyGroup(TyperGroup):
    """The registered studies as commands, besides resume, show and report."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns all names, studies first."""
        from trainmark.spec.registries import STUDIES

        return [*STUDIES.in_listed_order(), *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command; raises with the nearest name if there is none."""
        from trainmark.spec.registries import STUDIES
        from trainmark.studies.find import load_study

        try:
            return super().get_command(ctx, cmd_name) or _command_of(load_study(cmd_name))
        except TrainmarkError as error:
            if cmd_name not in STUDIES:
                raise
            return broken_command(cmd_name, error)  # a plug-in that costs no other study its place in the list


study = typer.Typer(
    cls=StudyGroup,
    help="Run many runs, analyse them and draw the figure: every experiment of the papers is one command.",
    epilog="Example: trainmark study threads --threads 1-4 --batch 32,64. List: trainmark list studies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _command_of(chosen: "Study") -> Any:
    """Returns the command of a study: its axes as options, then those of every study."""

    def command(**values: Any) -> None:
        from trainmark.cli.study_run import start

        given = {axis.name: values.pop(axis_argument(axis.name)) for axis in chosen.axes}
        start(chosen, {name: ",".join(texts) if texts else None for name, texts in given.items()}, values)

    _give_options(command, [*map(axis_option, chosen.axes), *common_options()])
    flags = [f"--{axis.name} {example}" for axis in chosen.axes if (example := example_of(axis))]
    shown = flags[:2] if len(" ".join(flags[:2])) < MAX_EXAMPLE else flags[:1]
    what = f"{chosen.description[0].upper()}{chosen.description[1:]}."
    command.__doc__ = (
        f"{chosen.title} ({chosen.documents}).\n\n{what}\n\n"
        "A LIST has values and ranges, as 1,2,4-8, or names, separated by commas; --dry-run shows the defaults.\n\n\b\n"
        f"Examples:\n  trainmark study {chosen.name} --dry-run\n"
        f"  trainmark study {chosen.name} {' '.join(shown)}".rstrip()
    )
    return command_alone(command, chosen.name, short_help=what)


def _give_options(command: Callable[..., None], options: list[Parameter]) -> None:
    """Gives a function these parameters, from which typer makes its options."""
    command.__signature__ = Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in options}


def _all(**values: Any) -> None:
    """Every study, one after another, and one page with all figures.

    \b
    Examples:
      trainmark study all --dry-run
      trainmark study all --size tiny
    """
    from trainmark.cli.study_run import start

    start(None, {}, values)


_give_options(_all, common_options())
study.command("all")(_all)
study.command("resume")(stored_studies.resume)
study.command("show")(stored_studies.show)
study.command("report")(stored_studies.report)
