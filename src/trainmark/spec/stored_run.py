"""The config, plan and site of a stored run, or one line that says what is wrong with its folder."""

from collections.abc import Callable, Iterator
from typing import Any
from zipfile import BadZipFile

from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import read_config, read_site
from trainmark.spec.errors import ConfigError, RunNotFoundError
from trainmark.spec.files import read_json
from trainmark.spec.plan import Plan, plan_as_json, plan_from_json
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site

# What reading files that somebody may have cut, edited or removed can raise.
DAMAGE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, BadZipFile)
MOST_EDITS = 6  # that one line names

Stored = tuple[RunConfig, Plan, Site]


def begun_with(config: RunConfig, plan: Plan, site: Site) -> dict[str, Any]:
    """What origin.json keeps: config.toml, plan.json and site.toml say the same, as long as they are not edited."""
    return {
        "config": config.model_dump(exclude_none=True),
        "plan": plan_as_json(plan),
        "site": site.model_dump(exclude_none=True),
    }


def read_stored(folder: RunFolder) -> Stored:
    """What the run began with, and its ranks ran with, whatever was edited in its files since."""
    try:
        begun = read_json(folder.origin).get("begun_with")
        if begun is None:
            return _read_older(folder)
        config, site = RunConfig.model_validate(begun["config"]), Site.model_validate(begun["site"])
        return config, plan_from_json(begun["plan"]), site
    except DAMAGE as error:
        raise damaged(folder, error) from error


def _read_older(folder: RunFolder) -> Stored:
    """Of a run of an earlier version, whose origin.json does not keep it; the ranks' own record says what they ran."""
    plan = plan_from_json(read_json(folder.plan))
    record = folder.job_record(plan.jobs[0].member)
    config = RunConfig.model_validate(read_json(record)["config"]) if record.exists() else read_config(folder.config)
    return config, plan, read_site(folder.site)


def find_edits(folder: RunFolder) -> list[str]:
    """What config.toml, plan.json and site.toml say otherwise than the run began with, each with both values."""
    begun = begun_with(*read_stored(folder))
    readers: list[tuple[str, str, Callable[[], dict[str, Any]]]] = [
        ("config.toml", "config", lambda: read_config(folder.config).model_dump(exclude_none=True)),
        ("plan.json", "plan", lambda: plan_as_json(plan_from_json(read_json(folder.plan)))),
        ("site.toml", "site", lambda: read_site(folder.site).model_dump(exclude_none=True)),
    ]
    found = []
    for name, kind, read in readers:
        try:
            found += [f"{name}: {difference}" for difference in _differences(read(), begun[kind])]
        except DAMAGE as error:
            found.append(f"{name}: {str(error).strip().splitlines()[0]}")
    hidden = len(found) - MOST_EDITS
    return [*found[:MOST_EDITS], f"and {hidden} more"] if hidden > 0 else found


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


def damaged(folder: RunFolder, error: BaseException) -> RunNotFoundError:
    """The error for a folder whose files are missing or broken."""
    reason = str(error).strip().split("\n")[0]
    return RunNotFoundError(
        f"The run in {folder.path} cannot be read: {type(error).__name__}: {reason}. "
        "Restore its files from a copy, or remove the folder and run again."
    )
