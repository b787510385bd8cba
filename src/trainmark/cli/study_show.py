"""Shows studies: their tables for people, or one JSON document."""

from typing import Any

from trainmark.cli.output import print_json
from trainmark.report.console import result_console
from trainmark.report.study_table import print_study
from trainmark.spec.table import Table
from trainmark.studies.publish import analyse, published
from trainmark.studies.record import ALL, StudyFolder, read_study
from trainmark.studies.stored_outcomes import outcomes_of
from trainmark.studies.whole import parts_of


def show_stored(folder: StudyFolder, *, as_json: bool) -> None:
    """Shows the table of a study as far as it has come, or those of all parts of `all`; as JSON, in one document."""
    found = []
    for part in parts_of(folder):
        record = read_study(part)
        found.append((part, analyse(part, record, outcomes_of(part, record)).table))
    if as_json and read_study(folder).study == ALL:
        print_json({**place_of(folder), "parts": [_record(part, table) for part, table in found]})
        return
    for part, table in found:
        show_table(part, table, as_json=as_json)


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
