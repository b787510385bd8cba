"""A trained member's predictions, read back, and what is wrong with a file that cannot be."""

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.files import one_line

Predictions = Mapping[str, NDArray[Any]]
Problem = str | None

OF_EVERY_MEMBER = ("eval_predictions", "eval_labels")


def load_predictions(path: Path) -> Predictions:
    """All arrays of predictions.npz."""
    with path.open("rb") as file:
        if not is_zipfile(file):  # which numpy would take for something else
            raise BadZipFile("it is cut off, or no archive of arrays")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def problem_with(load: Callable[[], Predictions], file: str) -> Problem:
    """Why predictions cannot be used; None where they can."""
    try:
        missing = [name for name in OF_EVERY_MEMBER if name not in load()]
    except FileNotFoundError:
        return f"{file} is missing"
    except (OSError, ValueError, LookupError, EOFError, BadZipFile, zlib.error) as error:
        return f"{file} cannot be read: {one_line(error)}"
    return f"{file} holds no {', '.join(missing)}" if missing else None
