"""The folder of a dataset: data.path, or generated from its settings once, in the data folder, for all runs."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from trainmark.machine.stop import raise_if_stopped, stoppable
from trainmark.machine.storage import check_space
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import DataError, StorageError
from trainmark.spec.registries import DATASETS

Progress = Callable[[int, int], None]  # samples so far, total

ELSEWHERE = "another place with --data-dir"


def with_folder(config: RunConfig, data_dir: Path) -> dict[str, Any]:
    """The dataset's settings; `path` is the folder of generated data if data.path is not set."""
    settings: dict[str, Any] = dict(config.data)
    if is_generated(config):
        settings["path"] = str(generated_folder(config, data_dir))
    if "shape_cache" in DATASETS.load(config.dataset).Settings.model_fields:
        settings.setdefault("shape_cache", str(data_dir))
    return settings


def open_dataset(config: RunConfig, data_dir: Path) -> Any:
    """Opens the run's dataset."""
    kind = DATASETS.load(config.dataset)
    return kind(kind.Settings.model_validate(with_folder(config, data_dir)))


def planned_dataset(config: RunConfig, data_dir: Path) -> Any:
    """Opens the run's dataset, or describes it by its settings if not generated yet; raises if it cannot be."""
    folder = generated_folder(config, data_dir)
    if not is_generated(config) or folder.exists():
        return open_dataset(config, data_dir)
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(config.data))
    _check_can_generate(dataset, folder, ELSEWHERE)
    return dataset


def planned_images(config: RunConfig, data_dir: Path) -> tuple[NDArray[np.int64] | None, Sequence[str]]:
    """Heights and widths of the training images, generated or not, and their files' names.

    None if all images are alike, or only their files tell.
    """
    dataset = planned_dataset(config, data_dir)
    if not getattr(dataset, "variable_shape", False) or not hasattr(dataset, "shapes"):
        return None, ()
    shapes: NDArray[np.int64] = dataset.shapes("train")
    return shapes, dataset.names("train")


def is_generated(config: RunConfig) -> bool:
    """Whether trainmark generates the data: the dataset is read from disk, and data.path is not set."""
    return hasattr(DATASETS.load(config.dataset), "make") and config.data.get("path") is None


def generated_folder(config: RunConfig, data_dir: Path) -> Path:
    """The folder of data generated with these settings."""
    kind = DATASETS.load(config.dataset)
    made = {key: value for key, value in config.data.items() if key not in getattr(kind, "reading_settings", ())}
    settings = json.dumps([config.dataset, getattr(kind, "version", 1), made], sort_keys=True)
    name = config.dataset.rpartition(":")[2]  # a plug-in's name includes its module
    return data_dir / f"{name}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"


def generate_into(dataset: Any, folder: Path, progress: Progress, elsewhere: str = "another folder") -> None:
    """Generates the dataset into a folder, atomically; errors suggest `elsewhere`."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder} exists already. Choose a folder that does not exist, or is empty.")
        _remove_leftovers(folder.parent, escape(folder.name))
        _check_can_generate(dataset, folder, elsewhere)
        with stoppable(f"; nothing was left in {folder}."):
            _make(dataset, folder, progress)
    except OSError as error:
        # Not the error's own message, which names a temporary file.
        reason = os.strerror(error.errno).lower() if error.errno else "writing failed"
        raise StorageError(f"{folder} cannot be written: {reason}. Free some space, or choose {elsewhere}.") from error


def _check_can_generate(dataset: Any, folder: Path, elsewhere: str) -> None:
    """Raises if the settings are invalid or there is too little space."""
    if hasattr(dataset, "check_settings"):
        dataset.check_settings()
    instead = f"generate fewer samples (num_train, num_eval), or choose {elsewhere}"
    needed_bytes = getattr(dataset, "made_bytes", 0)
    check_space(folder, needed_bytes, what="generating these data writes about", instead=instead)


def generate_missing(config: RunConfig, data_dir: Path, progress: Progress) -> None:
    """Generates the run's data, unless an earlier run has done so; prepares what its ranks share."""
    _generate_missing(config, data_dir, progress)
    if hasattr(DATASETS.load(config.dataset), "prepare"):
        open_dataset(config, data_dir).prepare()


def _generate_missing(config: RunConfig, data_dir: Path, progress: Progress) -> None:
    folder = generated_folder(config, data_dir)
    if not is_generated(config) or folder.exists():
        return
    _remove_leftovers(folder.parent, "*")
    kind = DATASETS.load(config.dataset)
    try:
        dataset = kind(kind.Settings.model_validate(config.data))
        generate_into(dataset, folder, progress, ELSEWHERE)
    except (DataError, StorageError):
        if not folder.exists():  # otherwise another run has just generated the same data
            raise


def _make(dataset: Any, folder: Path, progress: Progress) -> None:
    def after_sample(made: int, total: int) -> None:
        progress(made, total)
        raise_if_stopped()

    unfinished = folder.with_name(f".{folder.name}.{gethostname()}.{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        dataset.make(unfinished, after_sample)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_leftovers(parent: Path, name: str) -> None:
    """Removes unfinished folders of that name that killed processes of this host left."""
    for path in parent.glob(f".{name}.{escape(gethostname())}.*"):
        process = path.name.rpartition(".")[2]
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            shutil.rmtree(path, ignore_errors=True)
