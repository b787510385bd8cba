"""The config, plan and site of a stored run, or one line that says what is wrong with its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_config, read_site
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.files import read_json
from trainmark.spec.plan import Plan, plan_from_json
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site

T = TypeVar("T")

# What reading a file that somebody may have cut, edited or removed can raise; TOML and pydantic raise ValueErrors.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


def read_choices(folder: RunFolder) -> tuple[RunConfig, Plan]:
    """What a Result cannot be made without."""
    config = _read(folder.config, read_config)
    return config, _read(folder.plan, lambda path: plan_from_json(read_json(path)))


def read_stored(folder: RunFolder) -> tuple[RunConfig, Plan, Site]:
    """What `stage` wrote."""
    return *read_choices(folder), _read(folder.site, read_site)


def _read(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).strip().split("\n")[0]
        raise RunNotFoundError(
            f"{path} cannot be read: {type(error).__name__}: {reason}. Restore this file from a copy; the run's other "
            "files are kept as they are."
        ) from error
