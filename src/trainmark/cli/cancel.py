"""`trainmark cancel`: stop what a run still does."""

from trainmark.cli.options import DEFAULT_RUNS_DIR, RunName, RunsDir


def cancel(run: RunName, runs_dir: RunsDir = DEFAULT_RUNS_DIR) -> None:
    """Stop a run's members. Works from another shell, and after the submitting process died; nothing is deleted.

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
        print(f"Go on with: trainmark resume {folder.path}")
