"""`trainmark resume`: run only what is missing."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunName, RunsDir


def resume(run: RunName, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Train the members of a run that have not finished; finished ones are kept.

    \b
    Examples:

      trainmark resume latest
    """
    from trainmark import pipeline
    from trainmark.cli.output import fail_unless_complete, show_result, watching
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    with watching() as watch:
        result = pipeline.resume(folder, watch)
    show_result(result, as_json=json)
    fail_unless_complete(result, folder.path)
