"""`trainmark study all`: every study, one after another, and one page with all figures."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trainmark.machine.software import code_version
from trainmark.plan.resolve import merged_values
from trainmark.report.study_page import StudySection, study_page
from trainmark.spec.errors import PlanError, RunFailedError, StorageError, TrainmarkError
from trainmark.spec.files import write_text
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.spec.site import Site
from trainmark.studies.conduct import is_of_machine, worked_on
from trainmark.studies.find import load_study
from trainmark.studies.make import Asked, make_study
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.publish import analyse, publish, published, publishing
from trainmark.studies.record import (
    ALL,
    CANNOT_RUN,
    StudyFolder,
    StudyRecord,
    new_study_id,
    read_study,
)
from trainmark.studies.stored_outcomes import outcomes_of, reason_of, refuse_without_runs


def make_all(asked: Asked, site: Site, places: Places) -> list[StudyRecord]:
    """Returns the records of all studies that can run here, then that of `all`, which says why others cannot.

    Raises if none can run. Writes nothing.
    """
    parts, found = list[StudyRecord](), dict[str, str]()
    for name in STUDIES.in_listed_order():
        try:
            record = make_study(load_study(name), asked, site, places)
        except StorageError:  # of all studies, and not for good
            raise
        except TrainmarkError as error:
            found[name] = f"{CANNOT_RUN}{error}"
        else:
            parts.append(record)
            found[name] = record.study_id
    if not parts:
        first, why = next(iter(found.items()))
        raise PlanError(f"No study can run. The first, {first}: {why.removeprefix(CANNOT_RUN)}")
    now = datetime.now(UTC)
    whole = StudyRecord(
        study_id=new_study_id(ALL, now),
        study=ALL,
        started_at=now.isoformat(timespec="seconds"),
        code_version=code_version(),
        repeats=asked.repeats or 1,
        seed=asked.seed,
        max_spread=0.0,
        axes={},
        base=merged_values(asked.sources),
        is_smallest=asked.is_smallest,
        parts=found,
    )
    return [*parts, whole]


def parts_of(folder: StudyFolder) -> Iterator[StudyFolder]:
    """Yields the folders of the studies in `all` that are there; of another study, its own."""
    record = read_study(folder)
    if record.study != ALL:
        yield folder
    for study_id in record.part_ids():
        part = StudyFolder(folder.path.with_name(study_id))
        if os.path.lexists(part.record):
            yield part


class Failed:
    """Studies in `all` that could not be conducted or analysed, while the others could."""

    def __init__(self) -> None:
        self._errors: dict[str, OSError | TrainmarkError] = {}

    @contextmanager
    def unless_of_machine(self, part: StudyFolder) -> Iterator[None]:
        """Keeps an error of one study for the end; a full disk or a lost scheduler concerns all."""
        try:
            yield
        except (OSError, TrainmarkError) as error:
            if is_of_machine(error):
                raise
            self._errors[part.study_id] = error

    def raise_any(self, folder: StudyFolder) -> None:
        """Raises the error of a study alone as it is, and for `all` which parts are missing or failed."""
        record = read_study(folder)
        if record.study != ALL:
            for error in self._errors.values():
                raise error
            return
        there = {part.study_id for part in parts_of(folder)}
        why = {study_id: "its folder is missing" for study_id in record.part_ids() if study_id not in there}
        why |= {study_id: reason_of(error) for study_id, error in self._errors.items()}
        if why:
            first, reason = next(iter(why.items()))
            raise RunFailedError(
                f"{len(why)} of {len(record.part_ids())} studies failed or are missing; the first, {first}: "
                f"{reason.rstrip('.')}. Mend it, or start it alone with: trainmark study NAME"
            )


def conduct_all(folder: StudyFolder, conduct_part: Callable[[StudyFolder], Outcomes]) -> tuple[list[Outcomes], Failed]:
    """Conducts the studies in `all` one after another; returns their outcomes, and those that failed as a whole."""
    found, failed = list[Outcomes](), Failed()
    with worked_on(folder):
        for part in parts_of(folder):
            with publishing(lambda: publish_all(folder)), failed.unless_of_machine(part):
                found.append(conduct_part(part))
            publish_all(folder)  # after each study: a killed one leaves the page of those before
    return found, failed


def sections_of(folder: StudyFolder, failed: Failed) -> Iterator[tuple[StudyFolder, StudySection]]:
    """Yields table and figures of a study, or of each in `all`."""
    for part in parts_of(folder):
        with failed.unless_of_machine(part):
            record = read_study(part)
            refuse_without_runs(part, record)
            yield part, analyse(part, record, outcomes_of(part, record))


def publish_all(folder: StudyFolder) -> Path:
    """Writes one page with the figures of all studies that can be analysed; returns its path."""
    write_text(folder.page, study_page([section for _, section in sections_of(folder, Failed())]))
    return folder.page


def publish_again(folder: StudyFolder) -> list[Path]:
    """Analyses the runs of a study, or of each in `all`, again; returns the files."""
    files, failed = list[Path](), Failed()
    for part in parts_of(folder):
        with failed.unless_of_machine(part), worked_on(part):
            record = read_study(part)
            refuse_without_runs(part, record)
            publish(part, record, outcomes_of(part, record))
            files += published(part)
    if read_study(folder).study == ALL:
        with worked_on(folder):
            files.append(publish_all(folder))
    failed.raise_any(folder)
    return files
