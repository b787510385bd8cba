"""`trainmark data`: generates small datasets in the layout of the real ones, checks and stages datasets."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.check_data import check, print_note
from trainmark.cli.options import AsJson, DatasetName, DatasetSetting
from trainmark.cli.stage_data import stage

data = typer.Typer(
    help="Generate small datasets, check datasets, stage them ahead of runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
data.command("check")(check)
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
        print_note(note)
        chosen = f"{name} --size {size}" if name in WORKLOADS else f"--set dataset={name}"
        typer.echo(f"Next: trainmark run {chosen} --set data.path={folder}")
