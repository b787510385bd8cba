"""`study all`, without training: what can run runs, what cannot is said, one page has all figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_studies import HERE
from trainmark.cli.stored_studies import show
from trainmark.cli.study_run import carry_on, start
from trainmark.plan.resolve import parse_setting
from trainmark.spec.errors import PlanError
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.studies.make import Asked, write_study
from trainmark.studies.preview import expected_seconds, preview_lines, preview_of_all
from trainmark.studies.record import StudyFolder, StudyRecord, find_study, read_study
from trainmark.studies.whole import make_all, parts_of, publish_again, publish_all


@pytest.fixture
def two_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that needs no training, and one that refuses a batch size."""
    monkeypatch.setattr(STUDIES, "in_listed_order", lambda: ["schedules", "threads"])


def whole_of(tmp_path: Path) -> StudyFolder:
    records = make_all(Asked([parse_setting("train.batch_size=4")], is_smallest=True), HERE, Places.of(tmp_path))
    return [write_study(record, HERE, tmp_path) for record in records][-1]


def options(tmp_path: Path, *settings: str, dry_run: bool = False) -> dict[str, Any]:
    nothing = dict.fromkeys(("workload", "size", "launcher", "site", "repeats", "data_dir"))
    flags = {"smallest": False, "json": False, "dry_run": dry_run, "seed": 1}
    return {**nothing, **flags, "setting": settings, "runs_dir": tmp_path}


@pytest.mark.usefixtures("two_studies")
def test_all_names_the_studies_that_can_run_and_says_why_others_cannot(tmp_path: Path) -> None:
    part, whole = make_all(Asked([parse_setting("train.batch_size=4")]), HERE, Places.of(tmp_path))
    why = "cannot run: train.batch_size is an axis of the study threads. Choose its values with --batch 4 instead."
    assert whole.parts == {"schedules": part.study_id, "threads": why}
    assert preview_lines(whole) == [f"threads: {why}"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("two_studies")
def test_the_preview_of_all_has_a_line_per_study_and_the_total(tmp_path: Path) -> None:
    *parts, whole = make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    lines = preview_of_all(parts, whole)
    assert [line.partition(":")[0] for line in lines] == ["schedules", "threads", "all"]
    runs = sum(len(part.runs) for part in parts)
    low, high = (round(sum(each[end] for part in parts if (each := expected_seconds(part)))) for end in (0, 1))
    assert lines[-1].startswith(f"all: 2 studies, {runs} runs; ") and 0 < low < high
    assert lines[-1].endswith(" node-hours")


@pytest.mark.usefixtures("two_studies")
def test_all_conducts_its_parts_and_makes_one_page_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(None, {}, options(tmp_path, "train.batch_size=4"))
    whole = find_study("latest", tmp_path)
    assert read_study(whole).study == "all"
    said = capsys.readouterr()
    assert said.out == f"{whole.page}\n"
    assert said.err.startswith("threads: cannot run: train.batch_size is an axis of the study threads.")
    (part,) = parts_of(whole)
    assert part.csv.exists() and read_study(part).study_id in whole.page.read_text()
    before = whole.page.read_bytes()
    whole.page.unlink()
    assert publish_again(whole)[-1] == whole.page and whole.page.read_bytes() == before


def test_all_is_shown_as_one_json_document_and_one_study_as_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(STUDIES, "in_listed_order", lambda: ["schedules", "threads"])
    records = make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    schedules, threads, whole = (write_study(record, HERE, tmp_path) for record in records)
    show(whole.study_id, tmp_path, json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["study"], found["path"]) == (whole.study_id, str(whole.path))
    assert [part["study"] for part in found["parts"]] == [schedules.study_id, threads.study_id]
    assert all(part["table"]["rows"] for part in found["parts"])
    show(threads.study_id, tmp_path, json=True)
    assert json.loads(capsys.readouterr().out) == found["parts"][1]


@pytest.mark.usefixtures("two_studies")
def test_all_with_a_single_part_is_shown_with_a_list_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(whole_of(tmp_path).study_id, tmp_path, json=True)
    assert len(json.loads(capsys.readouterr().out)["parts"]) == 1


@pytest.mark.usefixtures("two_studies")
def test_a_reason_as_long_as_no_file_name_is_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = whole_of(tmp_path)
    record = read_study(whole)
    why = f"cannot run: {'x' * 300}"
    whole.record.write_text(
        record.model_copy(update={"parts": {**record.parts, "threads": why}}).model_dump_json(by_alias=True)
    )
    assert [read_study(part).study for part in parts_of(whole)] == ["schedules"]
    assert publish_all(whole) == whole.page
    carry_on(whole, as_json=False)
    assert f"threads: {why}\n" in capsys.readouterr().err


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("typo=1", r"^No study can run\. The first, scaling: --set typo: there is no setting 'typo'\. Known: "),
        ("model=resnet50-v15", r"^No study can run\. The first, scaling: There is no model 'resnet50-v15'\. Did you "),
    ],
)
def test_if_no_study_can_run_that_is_one_error_and_nothing_is_written(
    tmp_path: Path, setting: str, said: str, dry_run: bool
) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        start(None, {}, options(tmp_path, setting, dry_run=dry_run))
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_latest_study_is_the_whole_rather_than_a_part_of_the_same_second(tmp_path: Path) -> None:
    def written(study_id: str) -> None:
        record = StudyRecord(
            study_id=study_id,
            study=study_id.split("-")[2],
            started_at="2026-11-15T09:00:00+00:00",
            code_version="0.1.0",
            repeats=1,
            seed=1,
            max_spread=0.1,
            axes={},
            base={},
        )
        write_study(record, HERE, tmp_path)

    for study_id in ("20261115-085959-threads-ffff", "20261115-090000-ensemble-ffff", "20261115-090000-all-0000"):
        written(study_id)
    assert find_study("latest", tmp_path).study_id == "20261115-090000-all-0000"
    written("20261115-090001-scaling-0000")
    assert find_study("latest", tmp_path).study_id == "20261115-090001-scaling-0000"
