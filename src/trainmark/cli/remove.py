"""`trainmark remove`: removes stored runs."""

import sys
from typing import Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir


def remove(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, unique prefixes, paths, or 'latest'.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; required without a terminal.")] = False,
    from_study: Annotated[
        bool, typer.Option("--from-study", help="Also runs of a study, whose table then lacks them.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: AsJson = False,
) -> None:
    """Remove runs with all their files. Data folders stay.

    \b
    Examples:
      trainmark remove 20261115-0912
      trainmark remove 20261115-0912 20261115-1003 --yes
    """
    from trainmark.cli.output import print_json
    from trainmark.spec.units import counted, show_bytes
    from trainmark.store.remove import clear_leftovers, find_own_run, size_of
    from trainmark.studies.removal import check_removable, remove_unclaimed

    folders = list(dict.fromkeys(find_own_run(run, runs_dir) for run in runs))
    for folder in folders:
        check_removable(folder, from_study=from_study)
    if not yes:
        _ask([f"{folder.run_id} ({show_bytes(size_of(folder.path))})" for folder in folders])
    freed = {folder.run_id: remove_unclaimed(folder) for folder in folders}
    for parent in {folder.path.parent for folder in folders}:
        clear_leftovers(parent)
    if json:
        print_json({"removed": list(freed), "freed_bytes": sum(freed.values())})
    else:
        print(f"removed {counted(len(freed), 'run')}, {show_bytes(sum(freed.values()))} freed")


def _ask(runs: list[str]) -> None:
    """Asks on the terminal; raises unless the answer is yes."""
    from trainmark.spec.errors import ConfigError
    from trainmark.spec.units import counted

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"Removing {counted(len(runs), 'run')} needs a confirmation. Without a terminal, add --yes.")
    sys.stderr.write("".join(f"{run}\n" for run in runs))
    sys.stderr.write(f"Remove {counted(len(runs), 'run')} with all files? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("Nothing was removed.")
