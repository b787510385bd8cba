"""`trainmark data`: generates small datasets in the layout of the real ones, checks and stages datasets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trainmark.cli.options import AsJson, DatasetName, DatasetSetting
from trainmark.cli.stage_data import stage

data = typer.Typer(
    help="Generate small datasets, check datasets, stage them ahead of runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
data.command("stage")(stage)


@data.command("make")
def make(
    name: DatasetName,
    folder: Annotated[Path, typer.Option("--output", "-o", help="A folder that does not exist yet, or is empty.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    setting: DatasetSetting = None,
    json: AsJson = False,
) -> None:
    """Write a small generated dataset in the layout of the real one.

    \b
    Examples:
      trainmark data make extreme-weather --size tiny -o storms
      trainmark data make imagenet --set num_train=1000 -o pictures
    """
    from trainmark.cli.output import data_progress, print_json
    from trainmark.data.folders import generate_into
    from trainmark.plan.dataset import find_stored_dataset, note_of_size
    from trainmark.spec.registries import WORKLOADS

    dataset = find_stored_dataset(name, size, setting or [])
    generate_into(dataset, folder, data_progress())
    made = {split: dataset.num_samples(split) for split in ("train", "eval")}
    note = note_of_size(name, size, dataset)
    if json:
        print_json({"folder": str(folder), **made, "note": note})
    else:
        typer.echo(f"{made['train']:,} training and {made['eval']:,} evaluation samples in {folder}")
        _print_note(note)
        chosen = f"{name} --size {size}" if name in WORKLOADS else f"--set dataset={name}"
        typer.echo(f"Next: trainmark run {chosen} --set data.path={folder}")


@data.command("check")
def check(
    name: DatasetName,
    folder: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    setting: DatasetSetting = None,
    json: AsJson = False,
) -> None:
    """Read every sample once and list all problems. Names file and index; the exit code is 1 if there are any.

    \b
    Examples:
      trainmark data check extreme-weather storms
      trainmark data check imagenet /data/imagenet --json
    """
    from trainmark.cli.output import print_json
    from trainmark.data.facts import num_stored
    from trainmark.plan.dataset import find_stored_dataset, note_of_size
    from trainmark.spec.units import counted

    dataset = find_stored_dataset(name, size, [*(setting or []), f"path={folder}"])
    problems: list[dict[str, Any]] = []
    for problem in dataset.check():
        problems.append({"file": problem.file, "index": problem.index, "what": problem.what})
        if not json:
            where = "" if problem.index is None else f", sample {problem.index}"
            typer.echo(f"{problem.file}{where}: {problem.what}")
    note, samples = note_of_size(name, size, dataset), num_stored(dataset)
    if json:
        print_json({"folder": str(folder), "samples": samples, "problems": problems, "note": note})
    else:
        read = "" if samples is None else f"{counted(samples, 'sample')} read, "
        typer.echo(f"{folder}: {read}{counted(len(problems), 'problem')}")
        _print_note(note)
    if problems:
        raise typer.Exit(1)


def _print_note(note: str | None) -> None:
    if note is not None:
        typer.echo(f"Note: {note}")
