"""`trainmark status`: what each member is doing."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunName, RunsDir


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
    from trainmark.machine.claims import is_being_worked_on
    from trainmark.report.console import result_console
    from trainmark.report.progress_table import progress_table, run_state
    from trainmark.store.runs import find_run

    folder = find_run(run, runs_dir)
    (members, silence), alive = pipeline.status(folder), is_being_worked_on(folder)
    if json:
        records = [asdict(member) for member in members]
        print_json({"run_id": folder.run_id, "alive": alive, "unreachable": silence, "members": records})
        return
    console = result_console()
    console.print(f"run {folder.run_id}: {run_state(members, is_alive=alive)}")
    if silence is not None:
        console.print(
            f"Slurm is unreachable ({silence}): below is what the run's files say", soft_wrap=True, markup=False
        )
    console.print(progress_table(members))
