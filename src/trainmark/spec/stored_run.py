"""Reads config, plan and site of a stored run, and detects edits and damage."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_config, read_site
from trainmark.spec.errors import ConfigError, RunNotFoundError
from trainmark.spec.files import read_json, write_json
from trainmark.spec.plan import Plan, plan_as_json, plan_from_json
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.validation_errors import describe_error

T = TypeVar("T")

# Raised when reading a truncated, edited or missing file; TOML and pydantic raise ValueErrors.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
MAX_EDITS = 6  # listed in one message

Stored = tuple[RunConfig, Plan, Site]


def initial_settings(config: RunConfig, plan: Plan, site: Site, places: Places) -> dict[str, Any]:
    """Returns config, plan and site for origin.json, which later edits of their own files do not change."""
    begun = {
        "config": config.model_dump(exclude_none=True),
        "plan": plan_as_json(plan),
        "site": site.model_dump(exclude_none=True),
    }
    return {"begun_with": begun, **_data_dir_entry(places)}


def _data_dir_entry(places: Places) -> dict[str, str]:
    """Returns the chosen data folder; the default one is not stored, as it moves with the runs folder."""
    return {} if places == Places.of(places.runs) else {"data_dir": str(places.data)}


def read_data_dir(folder: RunFolder) -> Path | None:
    """Returns the chosen data folder; None: the default in the runs folder, as in earlier versions."""
    try:
        return Path(read_json(folder.origin)["data_dir"])
    except UNREADABLE:
        return None


def places_of(folder: RunFolder) -> Places:
    """Returns the runs folder and the data folder of a stored run."""
    return Places.of(folder.path.parent, read_data_dir(folder))


def change_data_dir(folder: RunFolder, data_dir: Path | None) -> None:
    """Changes the data folder of a run; no-op if None or unchanged."""
    places = Places.of(folder.path.parent, data_dir)
    if data_dir is not None and places != places_of(folder):
        origin = {key: value for key, value in _read(folder.origin, read_json).items() if key != "data_dir"}
        write_json(folder.origin, origin | _data_dir_entry(places))


def read_config_and_plan(folder: RunFolder) -> tuple[RunConfig, Plan]:
    """Returns the config and plan with which the run started, ignoring later edits.

    Runs of an earlier version, or with a damaged origin.json, have them in their other files.
    """
    try:
        begun = read_json(folder.origin)["begun_with"]
        return RunConfig.model_validate(begun["config"]), plan_from_json(begun["plan"])
    except UNREADABLE:
        plan = _read(folder.plan, lambda path: plan_from_json(read_json(path)))
        return _config_of_ranks(folder, plan) or _read(folder.config, read_config), plan


def read_stored(folder: RunFolder) -> Stored:
    """Returns config, plan and site with which the run started."""
    choices = read_config_and_plan(folder)
    try:
        return *choices, Site.model_validate(read_json(folder.origin)["begun_with"]["site"])
    except UNREADABLE:
        return *choices, _read(folder.site, read_site)


def _config_of_ranks(folder: RunFolder, plan: Plan) -> RunConfig | None:
    """Returns the config in the first member's job record, or None."""
    try:
        return RunConfig.model_validate(read_json(folder.job_record(plan.jobs[0].member))["config"])
    except UNREADABLE:
        return None


def _read(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except UNREADABLE as error:
        raise RunNotFoundError(
            f"{path} cannot be read: {_reason(error)}. Restore this file from a copy; the run's other files are "
            "unchanged."
        ) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the record'} {describe_error(first)}"
    message = error.strerror if isinstance(error, OSError) else str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {message}"


def find_edits(folder: RunFolder) -> list[str]:
    """Returns the differences of config.toml, plan.json and site.toml from the start of the run, with both values."""
    config, plan = read_config_and_plan(folder)
    initial = {
        "config": config.model_dump(exclude_none=True),
        "plan": plan_as_json(plan),
        "site": _initial_site(folder),
    }
    readers: list[tuple[Path, str, Callable[[], dict[str, Any]]]] = [
        (folder.config, "config", lambda: read_config(folder.config).model_dump(exclude_none=True)),
        (folder.plan, "plan", lambda: plan_as_json(plan_from_json(read_json(folder.plan)))),
        (folder.site, "site", lambda: read_site(folder.site).model_dump(exclude_none=True)),
    ]
    found = []
    for path, kind, read in readers:
        try:
            was = initial[kind]
            found += [f"{path.name}: {difference}" for difference in _differences(read(), was)] if was else []
        except UNREADABLE as error:
            found.append(f"{path.name} cannot be read: {_reason(error)}")
    hidden = len(found) - MAX_EDITS
    return [*found[:MAX_EDITS], f"and {hidden} more"] if hidden > 0 else found


def _initial_site(folder: RunFolder) -> dict[str, Any] | None:
    """Returns None for runs of an earlier version, which only have site.toml."""
    try:
        return Site.model_validate(read_json(folder.origin)["begun_with"]["site"]).model_dump(exclude_none=True)
    except UNREADABLE:
        return None


def refuse_edits(folder: RunFolder) -> None:
    """Raises if settings were edited after the run started."""
    if edits := find_edits(folder):
        raise ConfigError(
            f"Run {folder.run_id} was edited after it started: {'; '.join(edits)}. Undo the edits to resume it, or "
            f"start a new run with: trainmark run --config {folder.config}"
        )


def _differences(now: dict[str, Any], initial: dict[str, Any]) -> list[str]:
    new, old = dict(leaves(now)), dict(leaves(initial))
    names = [name for name in {**old, **new} if new.get(name) != old.get(name)]
    return [f"{name} is {_shown(new.get(name))}, was {_shown(old.get(name))}" for name in names]


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of a record by dotted name: train.optimizer, groups.0.count."""
    if isinstance(value, dict | list | tuple) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
