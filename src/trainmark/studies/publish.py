"""Writes the outcome of a study: table.csv, table.json, each figure as SVG and PDF, report.html."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from trainmark.machine.stop import unstoppable
from trainmark.report.drawing import Figure, draw_pdf
from trainmark.report.study_page import StudySection, study_page
from trainmark.spec.errors import RunFailedError
from trainmark.spec.files import remove_leftovers, write_atomically, write_text
from trainmark.spec.table import Table
from trainmark.studies.conduct import Watching, conduct, worked_on
from trainmark.studies.find import load_study
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.preview import points_text
from trainmark.studies.record import RESUME, StudyFolder, StudyRecord, read_study
from trainmark.studies.stored_outcomes import outcomes_of
from trainmark.studies.study import Study
from trainmark.studies.trained import describe, named

IN_CAPTION = ("training_seconds", "node_hours")


def analyse(folder: StudyFolder, record: StudyRecord, outcomes: Outcomes) -> StudySection:
    """Returns table and figures of the outcomes; writes nothing."""
    study = load_study(record.study)
    table = describe(study.analyse(outcomes), record, outcomes.results)
    return _section(folder, record, study, table, study.figures(table))


def publish(folder: StudyFolder, record: StudyRecord, outcomes: Outcomes) -> Table:
    """Analyses the outcomes and writes all files; returns the table."""
    section = analyse(folder, record, outcomes)
    write_text(folder.csv, section.table.as_csv())
    write_text(folder.table, section.table.as_json())
    for figure in section.figures:
        if figure.svg is not None:
            write_text(folder.figure(figure.name, "svg"), figure.svg)
            content = draw_pdf(figure)
            write_atomically(folder.figure(figure.name, "pdf"), partial(_write, content))
    write_text(folder.page, study_page([section]))
    remove_leftovers(folder.path)  # of killed processes: this one holds the study
    return section.table


def conduct_and_publish(folder: StudyFolder, watching: Watching) -> tuple[Outcomes, Table]:
    """Runs what is missing of a study and writes all files, also of one that is stopped."""
    with worked_on(folder):
        with publishing(lambda: publish(folder, read_study(folder), outcomes_of(folder, read_study(folder)))):
            outcomes = conduct(folder, watching)
            table = publish(folder, read_study(folder), outcomes)
        return outcomes, table


@contextmanager
def publishing(publish_rest: Callable[[], object]) -> Iterator[None]:
    """Publishes what there is if the work within is stopped or fails; further signals do not stop that."""
    try:
        yield
    except BaseException:
        with suppress(Exception), unstoppable():  # an error here must not hide why it was stopped
            publish_rest()
        raise


def fail_unless_whole(folder: StudyFolder, found: Iterable[Outcomes]) -> None:
    """Raises (exit code 1) if runs are missing; what cannot run and what failed runs found out is an answer."""
    runs = [run for outcomes in found for point in outcomes.points for run in point.runs]
    missing = [run for run in runs if run.result is None and run.answer is None]
    if missing:
        raise RunFailedError(
            f"{len(missing)} of {len(runs)} runs have no Result; the first, {missing[0].run_id}: "
            f"{(missing[0].reason or '').rstrip('.')}. Try them again with: {RESUME} {folder.path}"
        )


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _section(
    folder: StudyFolder, record: StudyRecord, study: Study, table: Table, figures: list[Figure]
) -> StudySection:
    """Returns the study as a section of a page."""
    return StudySection(
        study_id=record.study_id,
        title=study.title,
        documents=study.documents,
        facts=[
            ("study", f"{study.name}: {study.description}"),
            ("started", record.started_at),
            *(
                (name.replace("_", " "), named(value))
                for name, value in table.trained.items()
                if name not in IN_CAPTION
            ),
            ("axes", "; ".join(f"{name} {', '.join(map(str, each))}" for name, each in record.axes.items() if each)),
            ("runs", _runs_text(folder, record)),
        ],
        table=table,
        figures=figures,
        runs=[(run.run_id, record.points[run.point].point.label, str(run.round)) for run in record.runs],
    )


def _runs_text(folder: StudyFolder, record: StudyRecord) -> str:
    if not record.points:
        return "none: computed from the settings"
    return f"{len(record.runs)}: {points_text(record)} × {record.repeats}, in {folder.runs_dir.name}"


def published(folder: StudyFolder) -> list[Path]:
    """Returns the files of a published study."""
    return sorted(path for path in folder.path.iterdir() if path.suffix in (".csv", ".svg", ".pdf", ".html"))
