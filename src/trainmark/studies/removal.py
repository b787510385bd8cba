"""Which runs may be removed: none that is running, and none that a study still needs unless told so."""

from contextlib import ExitStack, suppress
from pathlib import Path

from trainmark import pipeline
from trainmark.machine.claims import claimed, has_live_claim
from trainmark.spec.errors import ConfigError, RunFailedError, StorageError, TrainmarkError
from trainmark.spec.files import read_json
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import ACTIVE_STATES
from trainmark.spec.stored_run import UNREADABLE
from trainmark.store.remove import remove_run
from trainmark.studies.record import StudyFolder, read_study, studies_dir


def check_removable(folder: RunFolder, *, from_study: bool) -> None:
    """Raises if the run is running, or if a study needs it and that was not allowed."""
    if has_live_claim(folder) or _has_jobs(folder):
        raise RunFailedError(f"Run {folder.run_id} is running. Stop it first with: trainmark cancel {folder.run_id}")
    if not from_study and (study := study_of(folder)):
        raise ConfigError(
            f"Run {folder.run_id} belongs to the study {study.study_id}, whose table needs it; trainmark study resume "
            "would run it again. Remove it all the same with --from-study."
        )


def remove_unclaimed(folder: RunFolder) -> int:
    """Removes a run while no other process works on it; returns the bytes freed."""
    with ExitStack() as stack:
        with suppress(StorageError):  # a full disk, or one without hard links: no other process can claim it either
            stack.enter_context(claimed(folder))
        return remove_run(folder)


def _has_jobs(folder: RunFolder) -> bool:
    """Whether a member is under way or queued, as far as files and scheduler tell; a damaged run has none."""
    try:
        members, _ = pipeline.status(folder)
    except (TrainmarkError, *UNREADABLE):
        return False
    return any(member.state in ("queued", *ACTIVE_STATES) for member in members)


def study_of(folder: RunFolder) -> StudyFolder | None:
    """Returns the study of a run if it is stored beside it and names the run; a damaged study might."""
    try:
        study_id = read_json(folder.origin)["provenance"]["study"]["study_id"]
    except UNREADABLE:
        return None
    study = StudyFolder(studies_dir(folder.path.parent) / Path(str(study_id)).name)
    if not study.record.exists():
        return None
    try:
        is_named = any(run.run_id == folder.run_id for run in read_study(study).runs)
    except TrainmarkError:
        is_named = True
    return study if is_named else None
