"""Finds the runs of a runs folder, and reads their stored Results."""

import os
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.result import Result
from trainmark.spec.result_schema import NewerSchemaError, parse_result
from trainmark.spec.run_folder import RunFolder, matches_id
from trainmark.spec.validation_errors import describe_error

REMOVED = ".removed-"  # prefix of a run's folder while it is being removed


def folder_names(runs_dir: Path) -> dict[str, bool]:
    """Returns the folders in a runs folder, oldest first (ids start with the time), and whether each is a link."""
    try:
        with os.scandir(runs_dir) as entries:
            found = [(e.name, e.is_symlink()) for e in entries if e.is_symlink() or e.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise RunNotFoundError(
            f"Runs cannot be read from {runs_dir.resolve()}: {error.strerror}. Choose another --runs-dir."
        ) from error
    return dict(sorted(each for each in found if not each[0].startswith(REMOVED)))


def all_runs(runs_dir: Path, *, must_exist: bool = False) -> list[RunFolder]:
    """Returns all runs in the folder, oldest first."""
    return list(_runs_among(folder_names(runs_dir) if must_exist or os.path.lexists(runs_dir) else (), runs_dir))


def _runs_among(names: Iterable[str], runs_dir: Path) -> Iterator[RunFolder]:
    return (RunFolder((runs_dir / name).resolve()) for name in names if is_run(runs_dir / name))


def is_run(path: Path) -> bool:
    """Whether the folder is a run; one without read permission is listed as unreadable."""
    try:
        return any((path / name).is_file() for name in ("plan.json", "origin.json"))
    except PermissionError:
        return True
    except OSError:  # such as ENAMETOOLONG
        return False


def find_run(name: str, runs_dir: Path) -> RunFolder:
    """Finds a run by id, unique prefix, short id, path or `latest`."""
    path = Path(name)
    if is_run(path):
        return RunFolder(path.resolve())
    names = list(folder_names(runs_dir)) if os.path.lexists(runs_dir) else []
    newest = next(_runs_among(reversed(names), runs_dir), None)
    if newest is None:
        missing = "" if runs_dir.is_dir() else ", which does not exist"
        raise RunNotFoundError(
            f"No runs in {runs_dir.resolve()}{missing}. Start one with: trainmark run, or choose another --runs-dir."
        )
    if name == "latest":
        return newest
    matches = list(_runs_among([each for each in names if each == name], runs_dir)) or list(
        _runs_among([each for each in names if matches_id(each, name)], runs_dir)
    )
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise RunNotFoundError(
            f"No run in {runs_dir.resolve()} is called '{name}'. "
            f"List them with: trainmark results; the newest is {newest.run_id}."
        )
    raise RunNotFoundError(
        f"'{name}' matches {len(matches)} runs: {', '.join(run.run_id for run in matches[:4])}. Give more of the id."
    )


def read_result(folder: RunFolder) -> Result | None:
    """Returns the stored Result; None if the run has not ended or members were retried since."""
    try:
        if not folder.result.exists():
            return None
        result = parse_result(folder.result.read_bytes())
    except NewerSchemaError as error:
        raise RunNotFoundError(f"{folder.result} cannot be read: {error}.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'it'} {describe_error(first)}"
        raise RunNotFoundError(
            f"{folder.result} cannot be read as a Result: {reason}. "
            "Move it away; trainmark show then rebuilds it from the events."
        ) from None
    is_current = all(folder.num_attempts(member.member) == member.attempts for member in result.members)
    return result if is_current else None


def _trained_again(stored: Result, new: Result) -> list[int]:
    """Returns finished members with a newer attempt, for example because their completion record was lost."""
    tries = {member.member: member.attempts for member in new.members}
    had = [member for member in stored.members if member.state == "finished"]
    return [member.member for member in had if tries.get(member.member, 0) > member.attempts]


def keep_earlier_result(folder: RunFolder, new: Result) -> Result:
    """Returns the new Result; a stored one with data that are damaged by now is kept, with a warning."""
    if not folder.result.exists():
        return new
    try:
        stored = parse_result(folder.result.read_bytes())
        if again := _trained_again(stored, new):
            why = f"contains member {again[0]}, which was trained again"
        elif set(new.damage) <= set(stored.damage):
            return new
        else:
            why = "was made before files were damaged"
    except (OSError, ValueError, RecursionError, NewerSchemaError):
        why = "cannot be read"
    number = next(n for n in count(1) if not folder.earlier_result(n).exists())
    folder.result.rename(folder.earlier_result(number))
    warning = f"the Result stored earlier {why}; it is kept as {folder.earlier_result(number).name}"
    return new.model_copy(update={"warnings": [warning, *new.warnings]})
