"""The folder of a dataset: data.path, or one made from its settings once, in the data folder, for all runs."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from glob import escape
from pathlib import Path
from socket import gethostname
from typing import Any

import psutil

from trainmark.machine.processes import stoppable
from trainmark.machine.storage import check_space
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import DataError, StorageError
from trainmark.spec.registries import DATASETS

Progress = Callable[[int, int], None]  # samples made so far, of how many

ELSEWHERE = "another place with --data-dir"


def with_folder(config: RunConfig, data_dir: Path) -> dict[str, Any]:
    """The dataset's settings; `path` is where its data were made, if they had to be."""
    return {**config.data, "path": str(made_folder(config, data_dir))} if is_made(config) else dict(config.data)


def open_dataset(config: RunConfig, data_dir: Path) -> Any:
    """The run's dataset, where its data lie."""
    kind = DATASETS.load(config.dataset)
    return kind(kind.Settings.model_validate(with_folder(config, data_dir)))


def planned_dataset(config: RunConfig, data_dir: Path) -> Any:
    """The run's dataset where its data lie, or, where they have yet to be made, as its settings tell; that they can."""
    folder = made_folder(config, data_dir)
    if not is_made(config) or folder.exists():
        return open_dataset(config, data_dir)
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(config.data))
    _check_makeable(dataset, folder, ELSEWHERE)
    return dataset


def is_made(config: RunConfig) -> bool:
    """Whether the data are made by trainmark: the dataset is read from disk, and data.path is not set."""
    return hasattr(DATASETS.load(config.dataset), "make") and config.data.get("path") is None


def made_folder(config: RunConfig, data_dir: Path) -> Path:
    """Where data of just these settings lie once they are made."""
    version = getattr(DATASETS.load(config.dataset), "version", 1)
    settings = json.dumps([config.dataset, version, config.data], sort_keys=True)
    name = config.dataset.rpartition(":")[2]  # a plug-in's own code is named by its module, too
    return data_dir / f"{name}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"


def make_into(dataset: Any, folder: Path, progress: Progress, elsewhere: str = "another folder") -> None:
    """The folder holds the dataset's generated data; it appears whole or not at all. Errors advise to go elsewhere."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder} exists already. Choose a folder that does not exist, or is empty.")
        _remove_leftovers(folder.parent, escape(folder.name))
        _check_makeable(dataset, folder, elsewhere)
        with stoppable(f"; nothing was left in {folder}."):
            _make(dataset, folder, progress)
    except OSError as error:
        # Not the error's own words: they name a file that the user has never seen.
        reason = os.strerror(error.errno).lower() if error.errno else "writing failed"
        raise StorageError(f"{folder} cannot be written: {reason}. Free some space, or choose {elsewhere}.") from error


def _check_makeable(dataset: Any, folder: Path, elsewhere: str) -> None:
    """Raises if the settings describe no dataset, or there is too little space for it."""
    if hasattr(dataset, "check_settings"):
        dataset.check_settings()
    instead = f"make fewer samples (num_train, num_eval), or choose {elsewhere}"
    needed_bytes = getattr(dataset, "made_bytes", 0)
    check_space(folder, needed_bytes, what="making these data writes about", instead=instead)


def make_missing(config: RunConfig, data_dir: Path, progress: Progress) -> None:
    """The data are there: made now, unless an earlier run has made them. They appear whole or not at all."""
    folder = made_folder(config, data_dir)
    if not is_made(config) or folder.exists():
        return
    _remove_leftovers(folder.parent, "*")
    kind = DATASETS.load(config.dataset)
    try:
        dataset = kind(kind.Settings.model_validate(config.data))
        make_into(dataset, folder, progress, ELSEWHERE)
    except (DataError, StorageError):
        if not folder.exists():  # else another run was faster, with the same data
            raise


def _make(dataset: Any, folder: Path, progress: Progress) -> None:
    unfinished = folder.with_name(f".{folder.name}.{gethostname()}.{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        dataset.make(unfinished, progress)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_leftovers(parent: Path, name: str) -> None:
    """Nothing is left of folders of that name that processes of this host began and, killed, could not remove."""
    for path in parent.glob(f".{name}.{escape(gethostname())}.*"):
        process = path.name.rpartition(".")[2]
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            shutil.rmtree(path, ignore_errors=True)
