"""Starts and resumes studies: progress on standard error, the table on standard output."""

from collections.abc import Mapping
from typing import Any

from trainmark.cli.output import print_json
from trainmark.cli.run import given
from trainmark.cli.study_progress import watching
from trainmark.cli.study_show import place_of, show_table
from trainmark.machine.local_site import local_site
from trainmark.plan.explain import COMMAND_LINE, Source
from trainmark.plan.resolve import parse_setting, read_site_file
from trainmark.report.console import progress_console
from trainmark.report.study_progress import StudyProgress
from trainmark.spec.run_folder import Places
from trainmark.spec.table import Table
from trainmark.studies.axes import parse_values
from trainmark.studies.make import Asked, make_study, write_studies
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.preview import preview_lines, preview_of_all, preview_record
from trainmark.studies.publish import conduct_and_publish, fail_unless_whole
from trainmark.studies.record import ALL, StudyFolder, StudyRecord, read_study
from trainmark.studies.study import Study
from trainmark.studies.whole import conduct_all, make_all


def start(study: Study | None, axes: Mapping[str, str | None], options: Mapping[str, Any]) -> None:
    """Plans a study, or all if None; then lists it, or conducts it to its end."""
    flags = given(workload=options["workload"], size=options["size"], launch=given(launcher=options["launcher"]))
    sources = [Source(COMMAND_LINE, flags), *(parse_setting(text) for text in options["setting"] or [])]
    values = {name: parse_values(study.axis(name), text) for name, text in axes.items() if study and text is not None}
    place = read_site_file(options["site"]) if options["site"] else local_site()
    is_smallest = options["smallest"] or (study is None and options["size"] in (None, "tiny"))
    asked = Asked(
        sources,
        values,
        options["repeats"],
        options["seed"],
        is_smallest,
        site_file=options["site"] and str(options["site"].resolve()),
    )
    places = Places.of(options["runs_dir"], options["data_dir"])
    records = make_all(asked, place, places) if study is None else [make_study(study, asked, place, places)]
    if options["dry_run"]:
        _preview(records, as_json=options["json"])
        return
    carry_on(write_studies(records, place, places.runs), as_json=options["json"])


def _preview(records: list[StudyRecord], *, as_json: bool) -> None:
    if as_json:
        previews = [preview_record(record) for record in records]
        print_json(previews[0] if len(previews) == 1 else previews)
        return
    *parts, last = records
    print("\n".join(preview_of_all(parts, last) if parts else preview_lines(last)))


def carry_on(folder: StudyFolder, *, as_json: bool) -> None:
    """Conducts what is missing of a study, publishes it, and shows its table; exit code 1 if runs are missing."""
    record = read_study(folder)
    if record.study == ALL:
        _carry_on_all(folder, record, as_json=as_json)
        return
    outcomes, table = _conduct(folder, record)
    show_table(folder, table, as_json=as_json)
    fail_unless_whole(folder, [outcomes])


def _carry_on_all(folder: StudyFolder, record: StudyRecord, *, as_json: bool) -> None:
    _say(preview_lines(record))
    outcomes, failed = conduct_all(folder, lambda part: _conduct(part, read_study(part))[0])
    if as_json:
        print_json({**place_of(folder), "parts": record.parts})
    else:
        print(folder.page)
    failed.raise_any(folder)
    fail_unless_whole(folder, outcomes)


def _conduct(folder: StudyFolder, record: StudyRecord) -> tuple[Outcomes, Table]:
    """Runs what is missing and publishes it, also if it is stopped."""
    _say([f"study {record.study_id} in {folder.path}", preview_lines(record)[0]])
    return conduct_and_publish(folder, watching(StudyProgress(progress_console())))


def _say(lines: list[str]) -> None:
    console = progress_console()
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
