"""The stored runs of a runs folder: a new one, one by name, all of them."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from trainmark.spec.errors import RunNotFoundError, StorageError
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.wrong_value import what_is_wrong


@contextmanager
def new_run_folder(runs_dir: Path, workload: str, now: datetime) -> Iterator[RunFolder]:
    """An empty folder with an id that no other run has; if filling it fails, nothing of it stays."""
    run_id = f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{workload}-{secrets.token_hex(2)}"
    folder = RunFolder((runs_dir / run_id).resolve())
    try:
        folder.path.mkdir(parents=True)
    except OSError as error:
        raise StorageError(
            f"Cannot make the run's folder in {runs_dir}: {error.strerror}. Choose another place with --runs-dir."
        ) from error
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def all_runs(runs_dir: Path) -> list[RunFolder]:
    """Every run in the folder, oldest first (ids begin with the time)."""
    if not runs_dir.is_dir():
        return []
    return [RunFolder(path.resolve()) for path in sorted(runs_dir.iterdir()) if (path / "plan.json").is_file()]


def find_run(name: str, runs_dir: Path) -> RunFolder:
    """The run that an id, a unique prefix of it, a path or `latest` names."""
    path = Path(name)
    if (path / "plan.json").is_file():
        return RunFolder(path.resolve())
    runs = all_runs(runs_dir)
    if not runs:
        raise RunNotFoundError(
            f"There are no runs in {runs_dir.resolve()}. Start one with: trainmark run, or name another --runs-dir."
        )
    if name == "latest":
        return runs[-1]
    matches = [run for run in runs if run.run_id == name] or [run for run in runs if run.run_id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise RunNotFoundError(
            f"No run in {runs_dir.resolve()} is called '{name}'. "
            f"See them with: trainmark results; the newest is {runs[-1].run_id}."
        )
    raise RunNotFoundError(
        f"'{name}' fits {len(matches)} runs: {', '.join(run.run_id for run in matches[:4])}. Give more of the id."
    )


def read_result(folder: RunFolder) -> Result | None:
    """The stored Result, or nothing where the run has not ended, or members were tried again since."""
    if not folder.result.exists():
        return None
    try:
        result = Result.model_validate_json(folder.result.read_bytes())
    except (OSError, ValueError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'it'} {what_is_wrong(first)}"
        raise RunNotFoundError(
            f"{folder.result} cannot be read as a Result: {reason}. "
            "Move it away; trainmark show then collects it anew from the events."
        ) from None
    is_current = all(folder.num_attempts(member.member) == member.attempts for member in result.members)
    return result if is_current else None
