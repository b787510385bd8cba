"""`trainmark results`: lists the stored runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

if TYPE_CHECKING:
    from trainmark.cli.listed import Style

Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help="Only runs for which it holds, e.g. 'members>=4 and tag=baseline'."),
]
Sort = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Order; -NAME: the largest first. May be given several times."),
]
Names = Annotated[str | None, typer.Option(metavar="NAME,…", help="Columns, or with --group the figures.")]
Group = Annotated[
    str | None, typer.Option(metavar="NAME,…", help="One row per value: number of runs, medians, intervals.")
]


def results(
    workload: Annotated[str | None, typer.Option(help="Only runs of this workload.")] = None,
    state: Annotated[str | None, typer.Option(help="Only runs in this state, e.g. complete.")] = None,
    where: Where = None,
    sort: Sort = None,
    group: Group = None,
    columns: Names = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many runs.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    reindex: Annotated[bool, typer.Option("--reindex", help="Rebuild the index from the run folders.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV (RFC 4180).")] = False,
    json: AsJson = False,
) -> None:
    """List the stored runs, oldest first.

    \b
    Examples:
      trainmark results
      trainmark results --workload image-classification --state complete
      trainmark results --where 'members>=4 and train.precision=bf16'
      trainmark results --sort -flops --limit 10 --columns run_id,flops,tags
      trainmark results --group model,precision --columns flops
    """
    from trainmark.cli.listed import listed_runs, print_groups, print_rows
    from trainmark.report.results_table import shown_metrics
    from trainmark.spec.errors import ConfigError
    from trainmark.store.query import Query, split_names

    if csv and json:
        raise ConfigError("--csv and --json exclude each other. Choose one.")
    _check(workload, state)
    by, chosen = split_names(group, "--group"), split_names(columns, "--columns")
    order = tuple(name for given in sort or () for name in split_names(given, "--sort"))
    figures = chosen or tuple(shown_metrics())
    query = Query(where, {"workload": workload, "state": state}, order, limit, (*by, *figures))
    rows, ids = listed_runs(runs_dir, query, reindex=reindex)
    style: Style = "csv" if csv else "json" if json else "table"
    if by:
        print_groups(rows, by, figures, style)
    else:
        print_rows(rows, ids, str(runs_dir), chosen, style)


def _check(workload: str | None, state: str | None) -> None:
    """Raises if there is no such workload or state."""
    from trainmark.spec.errors import ConfigError
    from trainmark.spec.registries import WORKLOADS
    from trainmark.spec.registry import did_you_mean
    from trainmark.spec.run_facts import STATES

    if state not in (None, *STATES):
        raise ConfigError(
            f"There is no state '{state}'.{did_you_mean(state, list(STATES))} States: {', '.join(STATES)}."
        )
    if workload is not None:
        _ = WORKLOADS[workload]
