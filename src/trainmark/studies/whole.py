"""`trainmark study all`: every study, one after another, and one page with all figures."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainmark.machine.software import code_version
from trainmark.report.study_page import StudySection, study_page
from trainmark.spec.errors import PlanError, StorageError, TrainmarkError
from trainmark.spec.files import write_text
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.spec.site import Site
from trainmark.studies.make import Asked, make_study
from trainmark.studies.publish import analyse, publish, published
from trainmark.studies.record import (
    ALL,
    CANNOT_RUN,
    StudyFolder,
    StudyRecord,
    new_study_id,
    read_study,
)
from trainmark.studies.stored_outcomes import outcomes_of


def make_all(asked: Asked, site: Site, places: Places) -> list[StudyRecord]:
    """Returns the records of all studies that can run here, then that of `all`, which says why others cannot.

    Raises if none can run. Writes nothing.
    """
    parts, found = list[StudyRecord](), dict[str, str]()
    for name in STUDIES.in_listed_order():
        try:
            record = make_study(STUDIES.load(name), asked, site, places)
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
        base={},
        is_smallest=asked.is_smallest,
        parts=found,
    )
    return [*parts, whole]


def parts_of(folder: StudyFolder) -> Iterator[StudyFolder]:
    """Yields the folders of the studies in `all`; of another study, its own."""
    record = read_study(folder)
    if record.study != ALL:
        yield folder
    for study_id in record.part_ids():
        path = folder.path.with_name(study_id)
        if path.is_dir():
            yield StudyFolder(path)


def publish_all(folder: StudyFolder) -> Path:
    """Writes one page with the figures of all studies; returns its path."""
    sections: Sequence[StudySection] = [
        analyse(part, part_record, outcomes_of(part, part_record))
        for part in parts_of(folder)
        for part_record in [read_study(part)]
    ]
    write_text(folder.page, study_page(sections))
    return folder.page


def publish_again(folder: StudyFolder) -> list[Path]:
    """Analyses the runs of a study, or of each in `all`, again; returns the files."""
    files: list[Path] = []
    for part in parts_of(folder):
        record = read_study(part)
        publish(part, record, outcomes_of(part, record))
        files += published(part)
    return [*files, publish_all(folder)] if read_study(folder).study == ALL else files
