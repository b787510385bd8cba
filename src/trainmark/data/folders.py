"""Where a dataset lies on disk: as it was told, or made from its settings once beside the runs, for all of them."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.spec.config import RunConfig
from trainmark.spec.errors import DataError
from trainmark.spec.registries import DATASETS

Progress = Callable[[int, int], None]  # samples made so far, of how many


def with_folder(config: RunConfig, runs_dir: Path) -> dict[str, Any]:
    """The dataset's settings; `path` is where its data were made, if they had to be."""
    return {**config.data, "path": str(made_folder(config, runs_dir))} if is_made(config) else dict(config.data)


def open_dataset(config: RunConfig, runs_dir: Path) -> Any:
    """The run's dataset, where its data lie."""
    kind = DATASETS.load(config.dataset)
    return kind(kind.Settings.model_validate(with_folder(config, runs_dir)))


def is_made(config: RunConfig) -> bool:
    """Whether the data are made by trainmark: the dataset lies on disk, and nobody said where."""
    return hasattr(DATASETS.load(config.dataset), "make") and config.data.get("path") is None


def made_folder(config: RunConfig, runs_dir: Path) -> Path:
    """Where data of just these settings lie once they are made."""
    version = getattr(DATASETS.load(config.dataset), "version", 1)
    told = json.dumps([config.dataset, version, config.data], sort_keys=True)
    name = config.dataset.rpartition(":")[2]  # a plug-in's own code is named by its module, too
    return runs_dir / "data" / f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def make_into(dataset: Any, folder: Path, progress: Progress) -> None:
    """The folder holds the dataset's generated data; it appears whole or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists already. Choose a folder that does not exist, or is empty.")
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        dataset.make(unfinished, progress)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def make_missing(config: RunConfig, runs_dir: Path, progress: Progress) -> None:
    """The data are there: made now, unless an earlier run has made them. They appear whole or not at all."""
    folder = made_folder(config, runs_dir)
    if not is_made(config) or folder.exists():
        return
    kind = DATASETS.load(config.dataset)
    try:
        make_into(kind(kind.Settings.model_validate(config.data)), folder, progress)
    except OSError:
        if not folder.exists():  # else another run was faster, with the same data
            raise
