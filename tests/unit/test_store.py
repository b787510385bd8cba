"""Runs are found by id, prefix, path and `latest`."""

import secrets
from pathlib import Path

import pytest

from trainmark.spec.errors import ConfigError, RunNotFoundError
from trainmark.store.new_run import new_run_folder
from trainmark.store.runs import all_runs, find_run, read_result


def make_run(runs_dir: Path, second: int) -> str:
    with new_run_folder(runs_dir, f"20260101-00000{second}-w-{secrets.token_hex(2)}") as folder:
        folder.plan.write_text("{}")
    return folder.run_id


def test_a_run_is_found_by_every_name_it_has(tmp_path: Path) -> None:
    first, second = make_run(tmp_path, 1), make_run(tmp_path, 2)
    assert find_run(first, tmp_path).run_id == first
    assert find_run("20260101-000001", tmp_path).run_id == first
    assert find_run(f"20260101-0000-{first[-4:]}", tmp_path).run_id == first
    assert find_run("latest", tmp_path).run_id == second
    assert find_run(str(tmp_path / first), Path("elsewhere")).run_id == first


def test_an_unclear_or_unknown_name_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="No runs in"):
        find_run("latest", tmp_path)
    make_run(tmp_path, 1), make_run(tmp_path, 2)
    with pytest.raises(RunNotFoundError, match="matches 2 runs"):
        find_run("2026", tmp_path)
    with pytest.raises(RunNotFoundError, match="is called 'nope'"):
        find_run("nope", tmp_path)


def test_two_runs_of_one_second_get_different_folders(tmp_path: Path) -> None:
    assert make_run(tmp_path, 1) != make_run(tmp_path, 1)
    assert len(all_runs(tmp_path)) == 2


def test_a_run_that_cannot_be_staged_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), new_run_folder(tmp_path, "x"):
        raise ValueError("x")
    assert list(tmp_path.iterdir()) == []


def test_a_runs_folder_that_cannot_be_made_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"Runs cannot be stored in .*: Not a directory\. .*--runs-dir"),
        new_run_folder(tmp_path / "file" / "runs", "x"),
    ):
        pass


def test_a_result_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = find_run(make_run(tmp_path, 1), tmp_path)
    assert read_result(folder) is None
    folder.result.write_text('{"schema": "other/9"}')
    with pytest.raises(RunNotFoundError, match="cannot be read as a Result"):
        read_result(folder)
