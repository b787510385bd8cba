"""The config, plan and site of a stored run, or one line that says what is wrong with its folder."""

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
from trainmark.spec.wrong_value import what_is_wrong

T = TypeVar("T")

# What reading a file that was cut, edited or removed can raise; TOML and pydantic raise ValueErrors.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
MOST_EDITS = 6  # that one line names

Stored = tuple[RunConfig, Plan, Site]


def begun_with(config: RunConfig, plan: Plan, site: Site, places: Places) -> dict[str, Any]:
    """What origin.json keeps: config.toml, plan.json and site.toml say the same, as long as they are not edited."""
    begun = {
        "config": config.model_dump(exclude_none=True),
        "plan": plan_as_json(plan),
        "site": site.model_dump(exclude_none=True),
    }
    return {"begun_with": begun, **_data_dir_entry(places)}


def _data_dir_entry(places: Places) -> dict[str, str]:
    """The folder of data that was chosen; one within the runs' folder is not named: it moves with them."""
    return {} if places == Places.of(places.runs) else {"data_dir": str(places.data)}


def read_data_dir(folder: RunFolder) -> Path | None:
    """The data folder that was chosen; None: that of the runs' folder, as always in earlier versions."""
    try:
        return Path(read_json(folder.origin)["data_dir"])
    except UNREADABLE:
        return None


def places_of(folder: RunFolder) -> Places:
    """Where a stored run is, and where its data are."""
    return Places.of(folder.path.parent, read_data_dir(folder))


def change_data_dir(folder: RunFolder, data_dir: Path | None) -> None:
    """The run goes on with data in another folder; no-op where none is given, or it is the one already."""
    places = Places.of(folder.path.parent, data_dir)
    if data_dir is not None and places != places_of(folder):
        origin = {key: value for key, value in _read(folder.origin, read_json).items() if key != "data_dir"}
        write_json(folder.origin, origin | _data_dir_entry(places))


def read_choices(folder: RunFolder) -> tuple[RunConfig, Plan]:
    """What a Result cannot be made without: what the run began with, and its ranks ran with, whatever was edited since.

    Runs of an earlier version, and those whose origin.json is damaged, have it in their other files.
    """
    try:
        begun = read_json(folder.origin)["begun_with"]
        return RunConfig.model_validate(begun["config"]), plan_from_json(begun["plan"])
    except UNREADABLE:
        plan = _read(folder.plan, lambda path: plan_from_json(read_json(path)))
        return _config_of_ranks(folder, plan) or _read(folder.config, read_config), plan


def read_stored(folder: RunFolder) -> Stored:
    """The same, with the site."""
    choices = read_choices(folder)
    try:
        return *choices, Site.model_validate(read_json(folder.origin)["begun_with"]["site"])
    except UNREADABLE:
        return *choices, _read(folder.site, read_site)


def _config_of_ranks(folder: RunFolder, plan: Plan) -> RunConfig | None:
    """What the first member's own record says that its ranks ran with; None where there is none."""
    try:
        return RunConfig.model_validate(read_json(folder.job_record(plan.jobs[0].member))["config"])
    except UNREADABLE:
        return None


def _read(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except UNREADABLE as error:
        raise RunNotFoundError(
            f"{path} cannot be read: {_reason(error)}. Restore this file from a copy; the run's other files are kept "
            "as they are."
        ) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the record'} {what_is_wrong(first)}"
    words = error.strerror if isinstance(error, OSError) else str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {words}"


def find_edits(folder: RunFolder) -> list[str]:
    """What config.toml, plan.json and site.toml say otherwise than the run began with, each with both values."""
    config, plan = read_choices(folder)
    begun = {"config": config.model_dump(exclude_none=True), "plan": plan_as_json(plan), "site": _begun_site(folder)}
    readers: list[tuple[Path, str, Callable[[], dict[str, Any]]]] = [
        (folder.config, "config", lambda: read_config(folder.config).model_dump(exclude_none=True)),
        (folder.plan, "plan", lambda: plan_as_json(plan_from_json(read_json(folder.plan)))),
        (folder.site, "site", lambda: read_site(folder.site).model_dump(exclude_none=True)),
    ]
    found = []
    for path, kind, read in readers:
        try:
            was = begun[kind]
            found += [f"{path.name}: {difference}" for difference in _differences(read(), was)] if was else []
        except UNREADABLE as error:
            found.append(f"{path.name} cannot be read: {_reason(error)}")
    hidden = len(found) - MOST_EDITS
    return [*found[:MOST_EDITS], f"and {hidden} more"] if hidden > 0 else found


def _begun_site(folder: RunFolder) -> dict[str, Any] | None:
    """None in runs of an earlier version: site.toml is all that they have."""
    try:
        return Site.model_validate(read_json(folder.origin)["begun_with"]["site"]).model_dump(exclude_none=True)
    except UNREADABLE:
        return None


def refuse_edits(folder: RunFolder) -> None:
    """Raises if the run would go on with other settings than it began with."""
    if edits := find_edits(folder):
        raise ConfigError(
            f"Run {folder.run_id} was edited after it began: {'; '.join(edits)}. Restore what it began with to resume "
            f"it, or start a new run with: trainmark run --config {folder.config}"
        )


def _differences(now: dict[str, Any], begun: dict[str, Any]) -> list[str]:
    here, there = dict(_leaves(now)), dict(_leaves(begun))
    names = [name for name in {**there, **here} if here.get(name) != there.get(name)]
    return [f"{name} is {_shown(here.get(name))}, was {_shown(there.get(name))}" for name in names]


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each single value in a record, by its name: train.optimizer, groups.0.count."""
    if isinstance(value, dict | list | tuple) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
