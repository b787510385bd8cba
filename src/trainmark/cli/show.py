"""`trainmark show`: one result."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunName, RunsDir


def show(run: RunName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Show a run's Result. Of a run that was killed or is still running: what its members have measured so far.

    \b
    Examples:
      trainmark show latest
      trainmark show 20261115 --json
    """
    from trainmark.cli.output import show_result
    from trainmark.collect.build import build_result
    from trainmark.launch.launcher import ask_queue
    from trainmark.store.runs import find_run, read_result

    folder = find_run(run, runs_dir)
    show_result(read_result(folder) or build_result(folder, ask_queue(folder)), as_json=json)
