"""Shows studies: their tables for people, or one JSON document."""

from typing import Any

from trainmark.cli.output import print_json
from trainmark.report.console import result_console
from trainmark.report.study_table import print_study
from trainmark.spec.table import Table
from trainmark.studies.publish import published
from trainmark.studies.record import ALL, StudyFolder, read_study
from trainmark.studies.whole import Failed, sections_of


def show_stored(folder: StudyFolder, *, as_json: bool) -> None:
    """Shows the table of a study as far as it has come, or those of all parts of `all`; as JSON, in one document."""
    failed = Failed()
    found = [(part, section.table) for part, section in sections_of(folder, failed)]
    if as_json and read_study(folder).study == ALL:
        print_json({**place_of(folder), "parts": [_record(part, table) for part, table in found]})
    else:
        for part, table in found:
            show_table(part, table, as_json=as_json)
    failed.raise_any(folder)


def show_table(folder: StudyFolder, table: Table, *, as_json: bool) -> None:
    """Prints the table and the paths of the files."""
    if as_json:
        print_json(_record(folder, table))
        return
    print_study(table, result_console())
    print("\n".join(str(path) for path in published(folder)))


def _record(folder: StudyFolder, table: Table) -> dict[str, Any]:
    return {**place_of(folder), "table": table.model_dump(mode="json")}


def place_of(folder: StudyFolder) -> dict[str, str]:
    """Returns id and path of a study, with which its JSON begins."""
    return {"study": folder.study_id, "path": str(folder.path)}
