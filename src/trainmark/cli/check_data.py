"""`trainmark data check`: reads every sample once, lists all problems, and writes the names of bad files to a list."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.options import AsJson, DatasetName, DatasetSetting

if TYPE_CHECKING:
    from trainmark.data.split import Problem


def check(
    name: DatasetName,
    folder: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    setting: DatasetSetting = None,
    skip_list: Annotated[
        Path | None, typer.Option("--skip-list", help="Write the names of bad files to this file, for data.skip.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Read every sample once and list all problems. Names file and index; the exit code is 1 if there are any.

    \b
    Examples:
      trainmark data check extreme-weather storms
      trainmark data check imagenet /data/imagenet --json
      trainmark data check artworks /data/mame --size hr --skip-list bad.txt
    """
    from trainmark.data.facts import num_stored
    from trainmark.plan.dataset import check_can_skip, find_stored_dataset, note_of_size

    dataset = find_stored_dataset(name, size, [*(setting or []), f"path={folder}"])
    if skip_list is not None:
        check_can_skip(name, dataset)
    found: list[Problem] = []
    for problem in dataset.check():
        found.append(problem)
        if not json:
            where = "" if problem.index is None else f", sample {problem.index}"
            typer.echo(f"{problem.file}{where}: {problem.what}{' (no problem)' if problem.is_note else ''}")
    _summarise(folder, num_stored(dataset), found, skip_list, note_of_size(name, size, dataset), json)
    if not all(problem.is_note for problem in found):
        raise typer.Exit(1)


def _summarise(
    folder: Path, samples: int | None, found: "list[Problem]", skip_list: Path | None, note: str | None, json: bool
) -> None:
    from trainmark.cli.output import print_json
    from trainmark.data.images.skip_list import write_skip_list
    from trainmark.spec.units import counted

    problems = [problem for problem in found if not problem.is_note]
    names = [problem.name for problem in problems if problem.name is not None]
    num_listed = None if skip_list is None else write_skip_list(skip_list, names)
    if json:
        notes = [problem for problem in found if problem.is_note]
        of_kind = {
            kind: [{"file": each.file, "index": each.index, "what": each.what} for each in those]
            for kind, those in (("problems", problems), ("notes", notes))
        }
        to_skip = {} if skip_list is None else {"skip_list": str(skip_list), "num_listed": num_listed}
        print_json({"folder": str(folder), "samples": samples, **of_kind, **to_skip, "note": note})
        return
    read = "" if samples is None else f"{counted(samples, 'sample')} read, "
    typer.echo(f"{folder}: {read}{counted(len(problems), 'problem')}")
    print_note(note)
    if num_listed is not None:
        typer.echo(f"{counted(num_listed, 'name')} in {skip_list}; leave them out with --set data.skip={skip_list}")


def print_note(note: str | None) -> None:
    """Prints a note on the data, if there is one."""
    if note is not None:
        typer.echo(f"Note: {note}")
