"""`trainmark status`, `resume`, `cancel` and `show`: commands on a stored run."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, DataDir, RunName, RunsDir


def status(run: RunName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Show what each member of a run is doing now. Works from another shell and after the run was killed.

    \b
    Examples:
      trainmark status latest
      trainmark status latest --json
    """
    from dataclasses import asdict

    from trainmark import pipeline
    from trainmark.cli.output import print_json
    from trainmark.machine.claims import has_live_claim
    from trainmark.report.console import result_console
    from trainmark.report.progress_table import progress_table, run_state
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    (members, unreachable), alive = pipeline.status(folder), has_live_claim(folder)
    if json:
        records = [asdict(member) for member in members]
        print_json({"run_id": folder.run_id, "alive": alive, "unreachable": unreachable, "members": records})
        return
    console = result_console()
    console.print(f"run {folder.run_id}: {run_state(members, is_alive=alive)}")
    if unreachable is not None:
        console.print(
            f"Slurm is unreachable ({unreachable}): states are from the run's files", soft_wrap=True, markup=False
        )
    console.print(progress_table(members))


def resume(run: RunName, runs_dir: RunsDir = DEFAULT_RUNS_DIR, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Train the unfinished members of a run. Finished ones are kept.

    \b
    Examples:
      trainmark resume latest
    """
    from trainmark import pipeline
    from trainmark.cli.output import data_progress, end_with_result, live_progress
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    with live_progress() as watch:
        result = pipeline.resume(folder, watch, data_progress(), data_dir)
    end_with_result(result, folder.path, as_json=json)


def cancel(run: RunName, runs_dir: RunsDir = DEFAULT_RUNS_DIR) -> None:
    """Stop a run. Works from another shell and after the submitting process died; nothing is deleted.

    \b
    Examples:
      trainmark cancel latest
    """
    from trainmark import pipeline
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    was_running = pipeline.cancel(folder)
    members, _ = pipeline.status(folder)
    finished = sum(member.state == "finished" for member in members)
    what = "stopped" if was_running else "nothing was running"
    print(f"run {folder.run_id}: {what}; {finished} of {len(members)} members finished")
    if finished < len(members):
        print(f"Resume with: trainmark resume {folder.path}")


def show(run: RunName = "latest", runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: AsJson = False) -> None:
    """Show a run's Result. If it was killed or is still running: what its members have measured so far.

    \b
    Examples:
      trainmark show latest
      trainmark show 20261115 --json
    """
    from trainmark.cli.output import show_result
    from trainmark.collect.build import build_result
    from trainmark.launch.launcher import ask_queue
    from trainmark.store.runs import find_run, read_result
    from trainmark.store.tags import read_tags

    folder = find_run(run, runs_dir)
    result = read_result(folder) or build_result(folder, ask_queue(folder))
    show_result(result, as_json=json, tags=read_tags(folder)[0])
