"""A run's folder in which somebody has left or taken away files."""

import os
from pathlib import Path

import pytest

from tests.planned import EIGHT_CORES, planned_config
from tests.unit.test_report_page import written_result
from trainmark.machine import claims
from trainmark.machine.claims import STALE_S, has_live_claim
from trainmark.plan.mapping import Scale, map_members
from trainmark.spec.errors import ConfigError
from trainmark.spec.files import read_json, write_json, write_text
from trainmark.spec.job_record import job_records, read_job_record, write_jobs
from trainmark.spec.result import MemberResult
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.stored_run import change_data_dir, initial_settings, places_of
from trainmark.store.new_run import check_runs_dir
from trainmark.store.runs import all_runs, keep_earlier_result


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_attempts_are_folders_with_a_number(folder: RunFolder) -> None:
    folder.attempt(0, 1).path.mkdir(parents=True)
    for name in ("attempt-²", "attempt-x", "attempt-3 (copy)"):
        (folder.job(0) / name).mkdir()
    (folder.job(0) / "attempt-7").write_text("a file")
    assert folder.num_attempts(0) == 1


def test_records_that_were_copied_beside_claims_and_submissions_are_passed_over(folder: RunFolder) -> None:
    write_json(folder.claim(2), {})
    write_text(folder.path / "claims" / "0003 (copy).json", "")
    write_json(folder.submission_record(1), {})
    write_text(folder.path / "submissions" / "0001~.json", "")
    assert (folder.newest_claim(), folder.submission_numbers()) == (2, [1])


@pytest.mark.parametrize(("age_s", "holds"), [(0.0, True), (STALE_S + 5, False), (-STALE_S - 5, False)])
def test_a_claim_of_another_host_holds_while_its_time_is_near(folder: RunFolder, age_s: float, holds: bool) -> None:
    write_json(folder.claim(1), {"host": "no-such-host", "pid": 1, "created_s": 0.0})
    moment = claims._storage_time(folder) - age_s
    os.utime(folder.claim(1), (moment, moment))
    assert has_live_claim(folder) is holds


def test_a_run_without_its_plan_is_still_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "20260101-000000-w-abcd")
    write_json(folder.origin, {})
    assert all_runs(tmp_path) == [folder]


@pytest.mark.parametrize("name", ["new\nline", "esc\x1b[31m", os.fsdecode(b"not-utf8-\xff")])
def test_a_folder_whose_name_cannot_be_printed_holds_no_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="unprintable"):
        check_runs_dir(tmp_path / name)


def test_the_result_of_a_member_that_is_trained_again_after_it_finished_is_kept(folder: RunFolder) -> None:
    first, again = (
        written_result(members=[MemberResult(member=0, state="finished", attempts=attempts, seed=0)], warnings=[])
        for attempts in (1, 2)
    )
    write_text(folder.result, first.as_json())
    assert keep_earlier_result(folder, first).warnings == []
    assert keep_earlier_result(folder, again).warnings == [
        "the Result stored earlier contains member 0, which was trained again; it is kept as result-1.json"
    ]
    assert folder.earlier_result(1).read_text() == first.as_json()


def written_job(run: Path, data_dir: Path | None) -> Path:
    """The job.json of a run whose data are made in that folder."""
    config, folder = planned_config(), RunFolder(run)
    plan = map_members(Scale(1, 1, 1), EIGHT_CORES, config.launch)
    folder.path.mkdir(parents=True)
    write_json(folder.origin, initial_settings(config, plan, EIGHT_CORES, Places.of(run.parent, data_dir)))
    records = job_records(folder, config, plan, EIGHT_CORES)
    write_jobs(records, lambda record: "")
    return folder.job_record(0)


def test_data_are_made_in_the_runs_folder_and_move_with_it(tmp_path: Path) -> None:
    written_job(tmp_path / "runs" / "a", None)
    (tmp_path / "runs").rename(tmp_path / "moved")
    moved = RunFolder(tmp_path / "moved" / "a")
    assert places_of(moved) == (tmp_path / "moved", tmp_path / "moved" / "data")
    assert read_job_record(moved.job_record(0)).places.data == tmp_path / "moved" / "data"


def test_a_data_folder_that_was_chosen_stays_where_it_is_when_the_run_is_moved(tmp_path: Path) -> None:
    written_job(tmp_path / "runs" / "a", tmp_path / "scratch")
    (tmp_path / "runs").rename(tmp_path / "moved")
    moved = RunFolder(tmp_path / "moved" / "a")
    assert places_of(moved).data == read_job_record(moved.job_record(0)).places.data == tmp_path / "scratch"
    change_data_dir(moved, None)
    assert places_of(moved).data == tmp_path / "scratch"
    change_data_dir(moved, tmp_path / "other")
    assert places_of(moved).data == tmp_path / "other"
    change_data_dir(moved, tmp_path / "moved" / "data")
    assert places_of(moved) == Places.of(tmp_path / "moved")
    assert set(read_json(moved.origin)) == {"begun_with"}


def test_a_job_of_an_earlier_version_finds_its_data_beside_the_runs(tmp_path: Path) -> None:
    path = written_job(tmp_path / "runs" / "a", None)
    job = {key: value for key, value in read_json(path).items() if key != "data_dir"}
    write_json(path, job)
    assert read_job_record(path).places.data == tmp_path / "runs" / "data"
    RunFolder(tmp_path / "runs" / "a").origin.unlink()
    assert places_of(RunFolder(tmp_path / "runs" / "a")).data == tmp_path / "runs" / "data"
