"""A run's folder in which somebody has left or taken away files."""

import os
from pathlib import Path

import pytest

from tests.unit.test_report_page import written_result
from trainmark.machine import claims
from trainmark.machine.claims import STALE_S, is_being_worked_on
from trainmark.spec.errors import ConfigError
from trainmark.spec.files import write_json, write_text
from trainmark.spec.result import MemberResult
from trainmark.spec.run_folder import RunFolder
from trainmark.store.runs import all_runs, check_runs_dir, keep_richer_result


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
    moment = claims._now_of_storage(folder) - age_s
    os.utime(folder.claim(1), (moment, moment))
    assert is_being_worked_on(folder) is holds


def test_a_run_without_its_plan_is_still_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "20260101-000000-w-abcd")
    write_json(folder.origin, {})
    assert all_runs(tmp_path) == [folder]


@pytest.mark.parametrize("name", ["new\nline", "esc\x1b[31m", os.fsdecode(b"not-utf8-\xff")])
def test_a_folder_whose_name_cannot_be_printed_holds_no_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be printed"):
        check_runs_dir(tmp_path / name)


def test_the_result_of_a_member_that_is_trained_again_after_it_finished_is_kept(folder: RunFolder) -> None:
    first, again = (
        written_result(members=[MemberResult(member=0, state="finished", attempts=attempts, seed=0)], warnings=[])
        for attempts in (1, 2)
    )
    write_text(folder.result, first.as_json())
    assert keep_richer_result(folder, first).warnings == []
    assert keep_richer_result(folder, again).warnings == [
        "the Result stored earlier has member 0 finished, which was trained again; it is kept as result-1.json"
    ]
    assert folder.earlier_result(1).read_text() == first.as_json()
