"""Reads what the runs of a study gave, each from its own folder, which must say that it is that run."""

import os
from collections.abc import Mapping
from typing import Any

from trainmark.spec.errors import RunNotFoundError, TrainmarkError
from trainmark.spec.files import one_line, read_record
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.store.new_run import StudyMark
from trainmark.store.runs import read_result
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.record import PlannedStudyRun, StudyFolder, StudyRecord, read_study_site


def outcomes_of(folder: StudyFolder, record: StudyRecord) -> Outcomes:
    """Reads the outcomes of all points from their runs' folders."""
    points = []
    for number, planned in enumerate(record.points):
        runs = tuple(outcome_of(folder, record, run) for run in record.runs_of(number))
        points.append(PointOutcomes(planned.point, runs, refused=planned.refused))
    site = read_study_site(folder)
    return Outcomes(tuple(points), record.repeats, record.max_spread, record.axes, record.base, site)


def outcome_of(folder: StudyFolder, record: StudyRecord, run: PlannedStudyRun) -> Outcome:
    """Reads the outcome of one run; only a complete Result of that very run counts."""
    run_folder = folder.run(run.run_id)
    try:
        if run_folder.result.exists() and not run_folder.result.is_file():  # reading a pipe would block
            raise RunNotFoundError(f"{run_folder.result} is not a file. Move it away.")
        result = read_result(run_folder)
        reason = _why_not(folder, record, run, result)
    except (OSError, TrainmarkError) as error:
        result, reason = None, reason_of(error)
    return Outcome(run.round, run.run_id, None if reason else result, reason, run_folder)


def refuse_without_runs(folder: StudyFolder, record: StudyRecord) -> None:
    """Raises if a study has a table and not one of its runs: it was moved or copied without them."""
    paths = [folder.run(run.run_id).path for run in record.runs]
    if paths and folder.table.exists() and not any(map(os.path.lexists, paths)):
        raise RunNotFoundError(
            f"Not one run of study {record.study_id} is in {folder.runs_dir}. Put the study into the folder `studies` "
            "beside its runs; its table and figures are left as they are."
        )


def reason_of(error: OSError | TrainmarkError) -> str:
    """Returns what is wrong, with the file if the system says so."""
    return str(error) if isinstance(error, TrainmarkError) else f"{error.filename}: {one_line(error)}"


def _why_not(folder: StudyFolder, record: StudyRecord, run: PlannedStudyRun, result: Result | None) -> str | None:
    """Returns why a stored Result is not the complete one of that run; None if it is."""
    if result is None:
        return _failure_before(folder, run) or "not run yet"
    if result.run_id != run.run_id or not is_of(result.provenance, mark_of(record, run)):
        return f"{folder.run(run.run_id).path} holds another run: {_name_of(result)}"
    return None if result.state == "complete" else _failure_of(result)


def _failure_before(folder: StudyFolder, run: PlannedStudyRun) -> str | None:
    """Returns why a run had no Result when it was last tried; None if nothing is known."""
    try:
        return folder.failure(run.run_id).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _name_of(result: Result) -> str:
    """`RUN (threads=2, round 1)`, from its own records."""
    found = result.provenance.get("study")
    if not isinstance(found, dict):
        return f"{result.run_id}, of no study"
    return f"{found.get('run_id')} ({found.get('point')}, round {found.get('round')})"


def _failure_of(result: Result) -> str:
    for member in result.members:
        if member.state != "finished":
            return f"{member.state}: {member.reason or 'no reason was recorded'}"
    return f"{result.state}: no reason was recorded"


def mark_of(record: StudyRecord, run: PlannedStudyRun) -> StudyMark:
    """Returns what the run's folder says about where it belongs."""
    return StudyMark(run.run_id, record.study_id, record.points[run.point].point.label, run.round)


def provenance_of(folder: RunFolder) -> Mapping[str, Any]:
    """Returns the provenance in origin.json; empty if it is damaged."""
    origin, _ = read_record(folder.origin, folder.origin.name, {"provenance": dict})
    found = (origin or {}).get("provenance")
    return found if isinstance(found, dict) else {}


def is_of(provenance: Mapping[str, Any], mark: StudyMark) -> bool:
    """Whether a run is the marked one; if origin.json is damaged that is not known, and its place decides."""
    return provenance.get("study") == mark._asdict() or "config_hash" not in provenance
