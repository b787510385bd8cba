"""`trainmark report`: an HTML page on one or more runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

if TYPE_CHECKING:
    from trainmark.report.page import RunSection
    from trainmark.spec.run_folder import RunFolder


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="Runs: an id, a unique prefix of it, a path, or 'latest'.", show_default="latest"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page to write. Default for one run: report.html in its folder."),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: AsJson = False,
) -> None:
    """Write one self-contained HTML page with figures and plots.

    \b
    Examples:
      trainmark report latest
      trainmark report 20261115-0912 20261115-1003 -o both.html
    """
    from trainmark.cli.output import print_json
    from trainmark.report.page import report_page
    from trainmark.spec.files import write_text
    from trainmark.store.runs import find_run

    folders = list(dict.fromkeys(find_run(run, runs_dir) for run in runs or ["latest"]))
    path = _page_path(output, folders)
    write_text(path, report_page([_section(folder) for folder in folders]))
    if json:
        print_json({"report": str(path)})
    else:
        print(path)


def _page_path(output: Path | None, folders: "list[RunFolder]") -> Path:
    """Returns the path of the page; raises unless it is an HTML file, so that a typo cannot overwrite result.json."""
    from trainmark.spec.errors import ConfigError

    if output is None:
        if len(folders) > 1:
            raise ConfigError(f"A report on {len(folders)} runs needs a file name. Choose one with -o FILE.html.")
        return folders[0].path / "report.html"
    if output.suffix.lower() not in (".html", ".htm") or output.is_dir():
        raise ConfigError(f"-o {output} does not name an HTML file. Choose a name that ends in .html.")
    if not output.resolve().parent.is_dir():
        raise ConfigError(f"-o {output} is in a folder that does not exist. Create the folder, or choose another.")
    return output.resolve()


def _section(folder: "RunFolder") -> "RunSection":
    from trainmark.collect.build import build_result
    from trainmark.launch.launcher import ask_queue
    from trainmark.report.page import run_section
    from trainmark.spec.event_files import read_events
    from trainmark.store.runs import read_result

    result = read_result(folder) or build_result(folder, ask_queue(folder))
    nodes = {job.member: len(job.nodes) for job in result.plan.jobs}
    attempts = {m.member: folder.attempt(m.member, m.attempts) for m in result.members if m.attempts}
    events = {member: read_events(attempt.rank_events(0))[0] for member, attempt in attempts.items()}
    usage = {
        member: [read_events(attempt.usage(node))[0] for node in range(nodes[member])]
        for member, attempt in attempts.items()
    }
    return run_section(result, events, usage)
