"""`trainmark resume`: run only what is missing."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunName, RunsDir


def resume(run: RunName, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Train the members of a run that have not finished. Finished ones are kept.

    \b
    Examples:
      trainmark resume latest
    """
    from trainmark import pipeline
    from trainmark.cli.output import end_with_result, say_making, watching
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    with watching() as watch:
        result = pipeline.resume(folder, watch, say_making())
    end_with_result(result, folder.path, as_json=json)
