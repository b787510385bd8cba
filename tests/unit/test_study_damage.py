"""Damaged and foreign files of a study, without training: nothing is deleted, nothing wrong is counted."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_study_conduct import Machine, conducted, reasons_of, result_of, silent, study_of
from trainmark.spec.errors import RunFailedError, RunNotFoundError
from trainmark.spec.run_folder import RunFolder
from trainmark.studies.publish import conduct_and_publish, fail_unless_whole
from trainmark.studies.record import StudyFolder, find_study, read_study
from trainmark.studies.stored_outcomes import mark_of, outcomes_of

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def edit(folder: StudyFolder, change: Change) -> None:
    record = json.loads(folder.record.read_text())
    change(record)
    folder.record.write_text(json.dumps(record))


def runs_of(folder: StudyFolder) -> list[RunFolder]:
    return [folder.run(run.run_id) for run in read_study(folder).runs]


def test_a_link_in_the_place_of_a_run_is_refused_and_what_it_points_at_is_untouched(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path / "runs", repeats=1)
    precious = tmp_path / "precious" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("data")
    (run,) = runs_of(folder)
    run.path.symlink_to(precious.parent)
    ((_, reason, _),) = conducted(folder)
    assert reason == f"{run.path} is a link. Put the run's folder in its place, or remove the link."
    assert precious.read_text() == "data" and run.path.is_symlink()


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_is_in_the_place_of_a_run_is_set_aside_and_never_deleted(
    tmp_path: Path, machine: Machine, is_folder: bool
) -> None:
    folder = study_of(tmp_path, repeats=1)
    (run,) = runs_of(folder)
    events = run.attempt(0, 1).rank_events(0) if is_folder else run.path
    events.parent.mkdir(parents=True, exist_ok=True)
    events.write_text("measured")
    assert conducted(folder) == [(1, None, [])]
    aside = folder.interrupted(run.run_id, 1)
    assert (aside / events.relative_to(run.path)).read_text() == "measured" if is_folder else aside.read_text()
    assert run.result.exists()


def test_a_run_in_the_place_of_another_counts_for_neither_and_is_set_aside(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=2)
    assert len(conducted(folder)) == 2
    first, second = runs_of(folder)
    shutil.rmtree(first.path)
    shutil.copytree(second.path, first.path)
    other = f"{second.run_id} (threads=1 interop=1 batch=8, round 2)"
    assert reasons_of(folder) == [f"{first.path} holds another run: {other}", None]
    assert conducted(folder) == [(1, None, [])]
    assert reasons_of(folder) == [None, None]
    assert json.loads((folder.interrupted(first.run_id, 1) / "result.json").read_text())["run_id"] == second.run_id


def test_runs_of_a_point_that_was_edited_do_not_count_for_it(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    conducted(folder)
    edit(folder, lambda record: record["points"][0]["point"]["at"].update(batch=4096))
    (reason,) = reasons_of(folder)
    assert reason is not None and reason.endswith("-p000r1 (threads=1 interop=1 batch=8, round 1)")


def test_a_run_whose_origin_is_damaged_counts_where_it_is(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    record = read_study(folder)
    (run,) = runs_of(folder)
    run.attempt(0, 1).path.mkdir(parents=True)
    found = result_of(mark_of(record, record.runs[0]))
    run.result.write_text(found.model_copy(update={"provenance": {"data": {}}}).as_json())
    assert reasons_of(folder) == [None]
    run.result.write_text(found.model_copy(update={"provenance": {"config_hash": "feed"}}).as_json())
    assert reasons_of(folder) == [f"{run.path} holds another run: {run.run_id}, of no study"]


DAMAGE: dict[str, tuple[Change, str]] = {
    "no name": (
        lambda r: r["runs"][0].update(run_id=""),
        "must call its runs by point .*p000r1 ''",
    ),
    "outside": (lambda r: r["runs"][0].update(run_id="../victim"), "must call its runs .*'../victim'"),
    "NUL": (lambda r: r["runs"][0].update(run_id="a\0b"), "must call its runs"),
    "no such point": (lambda r: r["runs"][0].update(point=99), "must have one run per point and round, 2 in all"),
    "negative point": (lambda r: r["runs"][0].update(point=-1), "must have one run per point and round"),
    "twice": (lambda r: r["runs"].append(r["runs"][0]), "one run per point and round, 2 in all, but lists 3"),
    "no runs": (lambda r: r.update(runs=[]), "one run per point and round, 2 in all, but lists 0"),
    "no points": (lambda r: r.update(points=[]), "one run per point and round, 0 in all, but lists 2"),
    "no repeats": (lambda r: r.update(repeats=0), "repeats must be at least 1"),
    "too many repeats": (lambda r: r.update(repeats=10**30), "repeats "),
    "id outside": (lambda r: r.update(study_id="../x"), "study_id must be the name of a folder"),
    "part outside": (lambda r: r.update(parts={"x": "../../x"}), "must be the name of a folder"),
    "long": (lambda r: r["points"][0].update(seconds=[1e308, 1e308]), "seconds.0 must be at most"),
    "launch": (lambda r: r["base"].update(launch="x"), "must have a section base.launch"),
    "launcher": (lambda r: r["base"].update(launch={"launcher": ["a"]}), "whose launcher is a name"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_record_that_names_other_runs_than_its_own_is_refused(tmp_path: Path, case: str) -> None:
    change, said = DAMAGE[case]
    folder = study_of(tmp_path, repeats=2)
    edit(folder, change)
    with pytest.raises(RunNotFoundError, match=rf"study\.json cannot be read: .*{said}") as caught:
        read_study(folder)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("members", [1, 0])
def test_a_failed_result_without_a_failed_member_is_a_gap(tmp_path: Path, members: int) -> None:
    folder = study_of(tmp_path, repeats=1)
    record = read_study(folder)
    (run,) = runs_of(folder)
    run.attempt(0, 1).path.mkdir(parents=True)
    found = result_of(mark_of(record, record.runs[0]))
    found = found.model_copy(update={"state": "failed", "members": found.members[:members]})
    run.result.write_text(found.as_json())
    assert reasons_of(folder) == ["failed: no reason was recorded"]
    with pytest.raises(RunFailedError, match="1 of 1 runs have no Result"):
        fail_unless_whole(folder, [outcomes_of(folder, record)])


def test_a_study_reached_through_links_has_its_runs(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    conducted(folder)
    shutil.move(tmp_path / "studies", tmp_path / "far")
    (tmp_path / "studies").symlink_to(tmp_path / "far")
    (tmp_path / "mine").symlink_to(folder.path)
    assert find_study("latest", tmp_path) == find_study(str(folder.path), Path("/nowhere")) == folder
    assert reasons_of(find_study("latest", tmp_path)) == [None]
    shutil.move(tmp_path / "far", tmp_path / "elsewhere")
    (tmp_path / "studies").unlink()
    shutil.move(tmp_path / "elsewhere", tmp_path / "studies")
    assert reasons_of(find_study(str(tmp_path / "mine"), Path("/nowhere"))) == [None]


def test_pipes_in_the_place_of_files_are_named_and_nothing_waits_for_them(tmp_path: Path) -> None:
    folder = study_of(tmp_path, repeats=1)
    (run,) = runs_of(folder)
    run.path.mkdir()
    os.mkfifo(run.result)
    assert reasons_of(folder) == [f"{run.result} is not a file. Move it away."]
    folder.record.unlink()
    os.mkfifo(folder.record)
    with pytest.raises(RunNotFoundError, match=r"study\.json cannot be read: not a regular file"):
        read_study(folder)


def test_a_study_that_lost_its_site_says_where_to_find_one(tmp_path: Path) -> None:
    folder = study_of(tmp_path, repeats=1)
    folder.site.unlink()
    with pytest.raises(RunNotFoundError, match=r"site\.toml cannot be read: no such file .*Restore it from a copy"):
        reasons_of(folder)


def test_what_a_killed_process_left_of_table_and_page_is_gone_once_the_study_is_published(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path, repeats=1)
    (folder.path / ".report.html.iwznlvqt").write_text("half")
    conduct_and_publish(folder, silent(lambda record, each: None))
    assert [path for path in folder.path.iterdir() if path.name.startswith(".")] == []
