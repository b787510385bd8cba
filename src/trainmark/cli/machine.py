"""`trainmark machine`: topology, software and ceiling of this machine."""

from typing import Annotated

import typer

from trainmark.cli.options import AsJson
from trainmark.spec.errors import ConfigError


def machine(
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure the ceiling of its first accelerator, or of all cores.")
    ] = False,
    draft_site: Annotated[
        bool, typer.Option("--draft-site", help="Print a site file: of the Slurm cluster, else of this machine.")
    ] = False,
    no_slurm: Annotated[
        bool, typer.Option("--no-slurm", help="With --draft-site: describe this machine only, even if it has Slurm.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show this machine's topology, worker slots and software. With --measure also its ceiling.

    \b
    Examples:
      trainmark machine
      trainmark machine --measure --json
      # a site file for `trainmark run --site`
      trainmark machine --draft-site > site.toml
    """
    if draft_site or no_slurm:
        _check_draft(draft_site=draft_site, measure=measure)
        _print_draft(ask_scheduler=not no_slurm, as_json=json)
        return
    from trainmark.cli.output import print_json
    from trainmark.machine.local_site import local_site
    from trainmark.machine.software import describe_machine, describe_software
    from trainmark.report.machine_text import print_machine

    data = {"machine": describe_machine(), "site": local_site().model_dump(), "software": describe_software()}
    if measure:
        from trainmark.machine.ceilings import measure_here

        data["ceiling"] = measure_here(seconds=1.0)
    if json:
        print_json(data)
    else:
        print_machine(data)


def _check_draft(*, draft_site: bool, measure: bool) -> None:
    if not draft_site:
        raise ConfigError("--no-slurm needs --draft-site. Add --draft-site.")
    if measure:
        raise ConfigError("--draft-site prints a site file and measures nothing, but got --measure too. Remove one.")


def _print_draft(*, ask_scheduler: bool, as_json: bool) -> None:
    from trainmark.cli.output import print_json
    from trainmark.machine.draft import draft_site
    from trainmark.machine.site_file import site_toml

    draft = draft_site(ask_scheduler=ask_scheduler)
    if as_json:
        print_json(draft.site.model_dump(exclude_none=True))
    else:
        print(site_toml(draft), end="")
