"""`trainmark results`: the stored runs."""

from typing import Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir


def results(
    workload: Annotated[str | None, typer.Option(help="Only runs of this workload.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only runs in this state: complete, partial, failed, unfinished.")
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: AsJson = False,
) -> None:
    """List the stored runs, oldest first.

    \b
    Examples:

      trainmark results

      trainmark results --workload image-classification --state complete
    """
    from trainmark.cli.output import print_json
    from trainmark.report.results_table import print_results, result_row
    from trainmark.store.runs import all_runs, read_result

    rows = [result_row(folder.run_id, read_result(folder)) for folder in all_runs(runs_dir)]
    rows = [row for row in rows if workload in (None, row["workload"]) and state in (None, row["state"])]
    if json:
        print_json(rows)
    else:
        print_results(rows, str(runs_dir))
