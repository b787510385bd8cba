"""Creates, finds and lists the runs of a runs folder, and records their origin."""

import os
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder, matches_id
from trainmark.spec.validation_errors import describe_error


def all_runs(runs_dir: Path, *, must_exist: bool = False) -> list[RunFolder]:
    """Returns all runs in the folder, oldest first (ids start with the time)."""
    if not must_exist and not os.path.lexists(runs_dir):
        return []
    try:
        paths = sorted(runs_dir.iterdir())
    except OSError as error:
        raise RunNotFoundError(
            f"Runs cannot be read from {runs_dir.resolve()}: {error.strerror}. Choose another --runs-dir."
        ) from error
    return [RunFolder(path.resolve()) for path in paths if _is_run(path)]


def _is_run(path: Path) -> bool:
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
    if _is_run(path):
        return RunFolder(path.resolve())
    runs = all_runs(runs_dir)
    if not runs:
        missing = "" if runs_dir.is_dir() else ", which does not exist"
        raise RunNotFoundError(
            f"No runs in {runs_dir.resolve()}{missing}. Start one with: trainmark run, or choose another --runs-dir."
        )
    if name == "latest":
        return runs[-1]
    matches = [run for run in runs if run.run_id == name] or [run for run in runs if matches_id(run.run_id, name)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise RunNotFoundError(
            f"No run in {runs_dir.resolve()} is called '{name}'. "
            f"List them with: trainmark results; the newest is {runs[-1].run_id}."
        )
    raise RunNotFoundError(
        f"'{name}' matches {len(matches)} runs: {', '.join(run.run_id for run in matches[:4])}. Give more of the id."
    )


def read_result(folder: RunFolder) -> Result | None:
    """Returns the stored Result; None if the run has not ended or members were retried since."""
    try:
        if not folder.result.exists():
            return None
        result = Result.model_validate_json(folder.result.read_bytes())
    except (OSError, ValueError) as error:
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
        stored = Result.model_validate_json(folder.result.read_bytes())
        if again := _trained_again(stored, new):
            why = f"contains member {again[0]}, which was trained again"
        elif set(new.damage) <= set(stored.damage):
            return new
        else:
            why = "was made before files were damaged"
    except (OSError, ValueError):
        why = "cannot be read"
    number = next(n for n in count(1) if not folder.earlier_result(n).exists())
    folder.result.rename(folder.earlier_result(number))
    warning = f"the Result stored earlier {why}; it is kept as {folder.earlier_result(number).name}"
    return new.model_copy(update={"warnings": [warning, *new.warnings]})
