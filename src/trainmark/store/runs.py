"""Creates, finds and lists the runs of a runs folder, and records their origin."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainmark.data.facts import differences
from trainmark.machine.software import code_version, describe_machine, describe_software
from trainmark.machine.storage import check_space
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import ConfigError, RunNotFoundError, StorageError, TrainmarkError
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder, matches_id
from trainmark.spec.validation_errors import describe_error
from trainmark.spec.workload import DataFacts
from trainmark.workloads.find import find_size


class StudyMark(NamedTuple):
    """What marks a run of a study: its id, given beforehand, and where it belongs."""

    run_id: str
    study_id: str
    point: str
    round: int


def check_runs_dir(runs_dir: Path) -> None:
    """Raises if no run could be stored there; writes nothing."""
    if not str(runs_dir).isprintable():  # control characters, or bytes that are not UTF-8
        raise ConfigError(f"--runs-dir {str(runs_dir)!r} contains unprintable characters. Choose another name.")
    existing = next(path for path in (runs_dir, *runs_dir.resolve().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise _unusable(runs_dir, NotADirectoryError(errno.ENOTDIR, f"{existing} is not a folder"))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unusable(runs_dir, PermissionError(errno.EACCES, f"{existing} is not writable"))
    check_space(runs_dir, needed_bytes=0)


def new_run_id(workload: str) -> str:
    """Returns a unique run id that starts with the time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{workload}-{secrets.token_hex(2)}"


@contextmanager
def new_run_folder(runs_dir: Path, run_id: str) -> Iterator[RunFolder]:
    """Creates an empty run folder; removes it if filling it fails."""
    folder = RunFolder((runs_dir / run_id).resolve())
    try:
        folder.path.mkdir(parents=True)
    except OSError as error:
        raise _unusable(runs_dir, error) from error
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _unusable(runs_dir: Path, error: OSError) -> TrainmarkError:
    """Returns the error for an unusable runs folder: wrong input, or a storage error if the disk is full or failing."""
    kind = StorageError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else ConfigError
    return kind(f"Runs cannot be stored in {runs_dir}: {error.strerror}. Choose another folder with --runs-dir.")


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


def describe_origin(
    config: RunConfig, facts: DataFacts, config_hash: str, study: StudyMark | None = None
) -> dict[str, Any]:
    """Returns the content of origin.json at this time; `study` marks a run of one."""
    unlike = differences(find_size(config.workload, config.size), config.dataset, facts)
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "software": describe_software(config.train.engine),
        "data": {**asdict(facts), "unlike_the_size": unlike},
        "provenance": {
            "code_version": code_version(),
            "config_hash": config_hash,
            **({"study": study._asdict()} if study else {}),
        },
    }
