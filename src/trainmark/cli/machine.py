"""`trainmark machine`: what this machine is, and what it can do."""

from typing import Annotated

import typer

from trainmark.cli.options import AsJson


def machine(
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure the ceiling of its first accelerator, or of all cores.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show this machine's topology, worker slots and software; with --measure also its ceiling.

    \b
    Examples:

      trainmark machine

      trainmark machine --measure --json
    """
    from trainmark.cli.output import print_json
    from trainmark.machine.describe import describe_machine
    from trainmark.machine.local_site import local_site
    from trainmark.machine.software import describe_software
    from trainmark.report.machine_text import print_machine

    data = {"machine": describe_machine(), "site": local_site().model_dump(), "software": describe_software()}
    if measure:
        from trainmark.machine.ceilings import measure_here

        data["ceiling"] = measure_here(seconds=1.0)
    if json:
        print_json(data)
    else:
        print_machine(data)
