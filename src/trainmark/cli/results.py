"""`trainmark results`: lists the stored runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

if TYPE_CHECKING:
    from trainmark.spec.result import Result
    from trainmark.spec.run_folder import RunFolder

STATES = ("complete", "partial", "failed", "unfinished", "unreadable")


def results(
    workload: Annotated[str | None, typer.Option(help="Only runs of this workload.")] = None,
    state: Annotated[str | None, typer.Option(help="Only runs in this state, e.g. complete.")] = None,
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
    from trainmark.spec.errors import ConfigError
    from trainmark.spec.registries import WORKLOADS
    from trainmark.spec.registry import did_you_mean
    from trainmark.store.runs import all_runs

    if state not in (None, *STATES):
        raise ConfigError(
            f"There is no state '{state}'.{did_you_mean(state, list(STATES))} States: {', '.join(STATES)}."
        )
    if workload is not None:
        _ = WORKLOADS[workload]
    folders = all_runs(runs_dir, must_exist=runs_dir != DEFAULT_RUNS_DIR)
    rows = [result_row(folder.path, *_result_of(folder)) for folder in folders]
    rows = [row for row in rows if workload in (None, row["workload"]) and state in (None, row["state"])]
    if json:
        print_json(rows)
    else:
        print_results(rows, [folder.run_id for folder in folders], str(runs_dir))


def _result_of(folder: "RunFolder") -> "tuple[Result | None, str | None]":
    """Returns the stored Result, or one built from the events so far, or the reason why there is none."""
    from trainmark.spec.errors import TrainmarkError
    from trainmark.store.runs import read_result

    try:
        if stored := read_result(folder):
            return stored, None
        from trainmark.collect.build import build_result  # not loaded for runs that have ended

        return build_result(folder), None
    except TrainmarkError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001  an unreadable run must not hide the others
        return None, f"{type(error).__name__}: {error}"
