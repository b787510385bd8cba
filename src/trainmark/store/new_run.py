"""Creates run folders: checks the place, draws the bootstraps, records config, site, plan and origin."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.data.bootstrap import write_bootstraps
from trainmark.data.epochs import steps_per_epoch
from trainmark.data.facts import differences, facts_of
from trainmark.data.folders import Progress, open_dataset
from trainmark.machine.software import code_version, describe_machine, describe_software
from trainmark.machine.storage import check_space, flush_file_system
from trainmark.spec.config import RunConfig
from trainmark.spec.config_file import config_hash, config_text, site_text
from trainmark.spec.errors import ConfigError, StorageError, TrainmarkError
from trainmark.spec.files import write_json, write_text
from trainmark.spec.plan import Plan, plan_as_json
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.stored_run import initial_settings
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


def write_run(
    config: RunConfig,
    plan: Plan,
    site: Site,
    places: Places,
    progress: Progress | None = None,
    mark: StudyMark | None = None,
) -> RunFolder:
    """Writes a run folder with config, site, plan and bootstrap samples; `mark` says to which study it belongs."""
    facts = facts_of(open_dataset(config, places.data))
    with new_run_folder(places.runs, mark.run_id if mark else new_run_id(config.workload)) as folder:
        drawn = (config.ensemble.bootstrap, facts.num_train or 0, config.seed, plan.members)
        for audit in write_bootstraps(folder, *drawn, progress):
            steps_per_epoch(audit["draws"], config.train, plan.workers_per_member)  # raises on too few
        flush_file_system(folder.path)
        write_text(folder.config, config_text(config))
        write_text(folder.site, site_text(site))
        origin = describe_origin(config, facts, config_hash(config), mark)
        write_json(folder.origin, origin | initial_settings(config, plan, site, places))
        write_json(folder.plan, plan_as_json(plan))  # last: a folder with a plan is a run that can be resumed
    return folder


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
