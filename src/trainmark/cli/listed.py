"""The list of runs behind `trainmark results`: read, filtered, and printed as table, CSV or JSON."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from trainmark.cli.options import DEFAULT_RUNS_DIR
from trainmark.cli.output import print_json, reading_progress
from trainmark.report.console import result_console
from trainmark.report.results_table import as_csv, print_results, shown_metrics
from trainmark.spec.errors import escape_control_characters
from trainmark.spec.result import Result
from trainmark.spec.run_facts import Row
from trainmark.spec.run_folder import RunFolder
from trainmark.store.index import cache_folder
from trainmark.store.listing import Lister
from trainmark.store.query import Query, columns_of, fact_name

Style = Literal["table", "csv", "json"]


def listed_runs(runs_dir: Path, query: Query, *, reindex: bool) -> tuple[list[Row], list[str]]:
    """Returns the runs that the query wants, and the ids of all; notes about the index go to standard error."""
    names = query.names  # raises if the condition is wrong, before anything is read
    if runs_dir == DEFAULT_RUNS_DIR and not os.path.lexists(runs_dir):
        query.check_names([])
        return [], []
    lister = Lister(cache_folder(os.environ), _build, reading_progress())
    rows, notes = lister.list_runs(runs_dir, names, reindex=reindex)
    for note in notes:
        sys.stderr.write(f"Note: {escape_control_characters(note)}\n")
    query.check_names(rows)
    return query.select(rows), [row["run_id"] for row in rows]


def _build(folder: RunFolder) -> Result:
    from trainmark.collect.build import build_result  # not loaded for runs that have ended

    return build_result(folder)


def print_rows(rows: list[Row], ids: list[str], runs_dir: str, chosen: Sequence[str], style: Style) -> None:
    """Prints one row or record per run."""
    names = chosen or columns_of(shown_metrics())
    facts = [fact_name(name) for name in names]
    if style == "csv":
        sys.stdout.write(as_csv([[row[fact] for fact in facts] for row in rows], names))
    elif style == "json":
        print_json([dict(zip(names, (row[fact] for fact in facts), strict=True)) for row in rows])
    else:
        print_results(rows, ids, runs_dir, [fact_name(name) for name in chosen])


def print_groups(rows: list[Row], by: Sequence[str], figures: Sequence[str], style: Style) -> None:
    """Prints one row per group of runs."""
    from trainmark.report.study_table import print_study
    from trainmark.studies.groups import group_runs

    table = group_runs(rows, [fact_name(name) for name in by], [fact_name(name) for name in figures])
    if style == "csv":
        sys.stdout.write(table.as_csv(line_end="\r\n"))
    elif style == "json":
        print_json(list(table.rows))
    elif table.rows:
        print_study(table, result_console())
    else:
        print("No runs match.")
