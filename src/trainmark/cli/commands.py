"""Registers the commands, in the order in which `trainmark --help` lists them."""

import typer

from trainmark.cli import (
    data,
    flops,
    list_parts,
    machine,
    preflight,
    remove,
    report,
    results,
    run,
    score,
    stored_runs,
    study,
    tag,
)


def register(app: typer.Typer) -> None:
    """Adds every command to the program."""
    app.command("run")(run.run)
    app.command("resume")(stored_runs.resume)
    app.command("status")(stored_runs.status)
    app.command("cancel")(stored_runs.cancel)
    app.command("show")(stored_runs.show)
    app.command("results")(results.results)
    app.command("tag", context_settings=tag.SETTINGS)(tag.tag)
    app.command("remove")(remove.remove)
    app.command("report")(report.report)
    app.command("list")(list_parts.list_parts)
    app.command("flops")(flops.flops)
    app.command("score")(score.score)
    app.add_typer(study.study, name="study")
    app.add_typer(data.data, name="data")
    app.command("machine")(machine.machine)
    app.command("preflight")(preflight.preflight)
