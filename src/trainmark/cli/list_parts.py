"""`trainmark list`: lists the named parts of each kind."""

from typing import Annotated

import typer

from trainmark.cli.options import AsJson


def list_parts(
    kind: Annotated[str | None, typer.Argument(help="workloads, models, datasets, …; without it, the kinds.")] = None,
    json: AsJson = False,
) -> None:
    """List workloads, models, datasets, optimizers and other parts.

    \b
    Examples:
      trainmark list
      trainmark list workloads
    """
    from trainmark.cli.output import print_json, print_pairs
    from trainmark.spec.errors import UnknownNameError
    from trainmark.spec.registries import KINDS
    from trainmark.spec.registry import did_you_mean

    if kind is None:
        lines = {name: ", ".join(registry) for name, registry in KINDS.items()}
    elif kind in KINDS:
        lines = {name: KINDS[kind].describe(name) for name in KINDS[kind]}
    else:
        raise UnknownNameError(
            f"There is no kind '{kind}'.{did_you_mean(kind, list(KINDS))} Known: {', '.join(KINDS)}."
        )
    if json:
        print_json(lines)
        return
    print_pairs(lines)
