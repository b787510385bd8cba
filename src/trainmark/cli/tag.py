"""`trainmark tag`: tags and a note on a stored run."""

from typing import Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunName, RunsDir

# `-NAME` is an argument, not an option.
SETTINGS = {"ignore_unknown_options": True}


def tag(
    run: RunName,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[+NAME|-NAME]...", help="Tags to add (+) and to remove (-).")
    ] = None,
    note: Annotated[str | None, typer.Option(help="A note on the run; an empty one removes it.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: AsJson = False,
) -> None:
    """Tag a run, or show its tags and note.

    \b
    Examples:
      trainmark tag latest +baseline
      trainmark tag latest +night -baseline --note 'after the BIOS update'
      trainmark results --where tag=night
    """
    from trainmark.cli.output import print_json
    from trainmark.report.result_table import tag_lines
    from trainmark.spec.errors import ConfigError
    from trainmark.store.runs import find_run
    from trainmark.store.tags import change_tags

    if wrong := next((change for change in changes or () if change.startswith("--")), None):
        raise ConfigError(f"No such option: {wrong}. See: trainmark tag --help")
    folder = find_run(run, runs_dir)
    tags = change_tags(folder, changes or (), note)
    if json:
        print_json({"run_id": folder.run_id, "tags": list(tags.tags), "note": tags.note})
    else:
        print("\n".join([f"run {folder.run_id}", *(tag_lines(tags) or ["no tags"])]))
