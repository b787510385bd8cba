"""`trainmark data stage`: copies a whole training split to node-local storage ahead of runs."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.options import AsJson, DatasetName, DatasetSetting


def stage(
    name: DatasetName,
    storage: Annotated[Path, typer.Option("--to", help="Folder on node-local storage, as in the site file.")],
    size: Annotated[str, typer.Option(help="Size of the workload.")] = "tiny",
    setting: DatasetSetting = None,
    json: AsJson = False,
) -> None:
    """Copy all training samples to node-local storage. Runs with launch.stage=local then reuse them.

    \b
    Examples:
      trainmark data stage imagenet --set path=/data/imagenet --to /scratch
      # on each of four nodes
      srun --nodes 4 --ntasks-per-node 1 \\
        trainmark data stage imagenet --set path=/data/imagenet --to /scratch
    """
    from trainmark.cli.output import print_json, staging_progress
    from trainmark.data.staging.duplicator import stage_whole
    from trainmark.machine.storage import user_staging_folder
    from trainmark.plan.dataset import dataset_named, find_stored_dataset
    from trainmark.spec.units import show_bytes

    split = find_stored_dataset(name, size, setting or []).load("train")
    folder = user_staging_folder(str(storage.resolve()), setting="--to", instead="Choose another folder")
    staged = stage_whole(split, dataset_named(name, size), folder, staging_progress())
    pack = staged.pack.record
    facts = {"samples": pack.num_samples, "bytes": pack.size_bytes, "reused": staged.reused}
    if json:
        print_json({"folder": str(staged.pack.folder.path), **facts})
    else:
        how = "already staged" if staged.reused else "staged"
        typer.echo(f"{pack.num_samples:,} samples ({show_bytes(pack.size_bytes)}) {how} in {staged.pack.folder.path}")
