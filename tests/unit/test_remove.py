"""Runs are removed whole: never what runs or what a study needs, never beyond the runs folder, never by halves."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_runs import killed_at, lister, write_run
from trainmark.machine.claims import claimed
from trainmark.spec.errors import ConfigError, RunFailedError, StorageError
from trainmark.spec.run_folder import RunFolder
from trainmark.store.remove import clear_leftovers, find_own_run, remove_run, size_of
from trainmark.store.runs import all_runs
from trainmark.studies.removal import check_removable, remove_unclaimed, study_of


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs", 1)
    write_run(tmp_path / "runs", 2)
    return tmp_path / "runs"


def first(runs: Path) -> RunFolder:
    return all_runs(runs)[0]


def blocks_of(path: Path) -> int:
    return sum(each.lstat().st_blocks * 512 for each in path.rglob("*"))


def test_a_run_is_removed_and_the_freed_bytes_are_those_on_disk(runs: Path) -> None:
    folder, (_, second) = first(runs), all_runs(runs)
    (folder.path / "large").write_bytes(os.urandom(100_000))
    expected = blocks_of(folder.path)
    assert expected >= 100_000
    assert remove_unclaimed(folder) >= expected  # and its claim
    assert [path.name for path in runs.iterdir()] == [second.run_id]


def test_files_with_another_name_free_nothing_and_links_are_not_followed(runs: Path, tmp_path: Path) -> None:
    folder = first(runs)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_bytes(os.urandom(200_000))
    (folder.path / "to-data").symlink_to(tmp_path / "precious")
    (folder.path / "same").hardlink_to(tmp_path / "precious" / "data")
    assert size_of(folder.path) < 200_000
    remove_run(folder)
    assert (tmp_path / "precious" / "data").stat().st_size == 200_000


def test_a_link_to_a_run_elsewhere_is_refused(runs: Path, tmp_path: Path) -> None:
    elsewhere = write_run(tmp_path / "elsewhere", 3)
    (runs / elsewhere.run_id).symlink_to(elsewhere.path)
    for name in (elsewhere.run_id, "20261115-000003", str(runs / elsewhere.run_id)):
        with pytest.raises(ConfigError, match="is a link to"):
            find_own_run(name, runs)
    assert find_own_run(str(elsewhere.path), runs) == elsewhere
    (tmp_path / "link-to-runs").symlink_to(runs)
    assert find_own_run("20261115-000001", tmp_path / "link-to-runs") == first(runs)


def test_a_run_that_is_being_worked_on_is_refused(runs: Path) -> None:
    with claimed(first(runs)):
        with pytest.raises(RunFailedError, match=r"is running\. Stop it first with: trainmark cancel"):
            check_removable(first(runs), from_study=False)
        with pytest.raises(RunFailedError, match="is being worked on"):
            remove_unclaimed(first(runs))
    check_removable(first(runs), from_study=False)


@pytest.mark.parametrize("state", ["queued", "starting", "training"])
def test_a_run_whose_jobs_go_on_without_a_launcher_is_refused(
    runs: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Member:
        def __init__(self, state: str) -> None:
            self.state = state

    answers: Any = ([Member("finished"), Member(state)], None)
    monkeypatch.setattr("trainmark.pipeline.status", lambda folder: answers)
    with pytest.raises(RunFailedError, match="is running"):
        check_removable(first(runs), from_study=False)


def study_with(runs: Path, run_id: str, record: str | None = None) -> None:
    folder = RunFolder(runs / run_id)
    folder.origin.write_text(json.dumps({"provenance": {"study": {"study_id": "s-1"}}}))
    path = runs / "studies" / "s-1" / "study.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    run = {"point": 0, "round": 0, "run_id": run_id}
    parts = {"study_id": "s-1", "study": "threads", "started_at": "", "code_version": "", "repeats": 1, "seed": 1}
    path.write_text(record or json.dumps({**parts, "max_spread": 0.1, "axes": {}, "base": {}, "runs": [run]}))


def test_a_run_that_a_study_needs_is_refused_unless_told(runs: Path) -> None:
    folder = first(runs)
    study_with(runs, folder.run_id)
    with pytest.raises(ConfigError, match=r"belongs to the study s-1, .* --from-study"):
        check_removable(folder, from_study=False)
    check_removable(folder, from_study=True)
    shutil.rmtree(runs / "studies")
    assert study_of(folder) is None
    check_removable(folder, from_study=False)


def test_a_damaged_study_might_need_the_run(runs: Path) -> None:
    study_with(runs, first(runs).run_id, record="{")
    with pytest.raises(ConfigError, match="belongs to the study s-1"):
        check_removable(first(runs), from_study=False)


def test_a_damaged_run_can_be_removed(runs: Path) -> None:
    folder = first(runs)
    folder.plan.write_text("{")
    folder.origin.write_text("")
    check_removable(folder, from_study=False)
    remove_unclaimed(folder)
    assert not folder.path.exists()


def test_a_run_that_cannot_be_renamed_stays_whole(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StorageError, match="cannot be removed: read-only file system"):
        remove_run(first(runs))
    assert len(all_runs(runs)) == 2


WRITES = [(os, name) for name in ("rename", "unlink", "rmdir", "replace", "link")]


def test_a_process_killed_at_any_moment_leaves_a_whole_run_or_a_leftover_that_the_next_list_clears(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "data").mkdir()
    (runs / "data" / "shapes.bin").write_text("data")
    kept = tmp_path / "kept"
    shutil.copytree(first(runs).path, kept)
    names, call, seen = [run.run_id for run in all_runs(runs)], 1, set()
    folder = first(runs)
    while killed_at(call, WRITES, lambda: remove_unclaimed(folder), monkeypatch):
        listed = lister(tmp_path / "cache").list_runs(runs).rows
        assert all(row["state"] == "complete" for row in listed)
        seen.add(len(listed))
        assert sorted(path.name for path in runs.iterdir()) == sorted([*(row["run_id"] for row in listed), "data"])
        if len(listed) == 1:
            shutil.copytree(kept, folder.path)
        call += 1
    assert seen == {1, 2}
    assert call > 10
    assert [run.run_id for run in all_runs(runs)] == names[1:]
    assert (runs / "data" / "shapes.bin").read_text() == "data"


def test_leftovers_are_no_runs_and_a_link_of_that_name_is_not_followed(runs: Path, tmp_path: Path) -> None:
    first(runs).path.rename(runs / ".removed-ab12-x")
    (tmp_path / "precious").mkdir()
    (runs / ".removed-link").symlink_to(tmp_path / "precious")
    assert len(all_runs(runs)) == 1
    clear_leftovers(runs)
    assert not (runs / ".removed-ab12-x").exists()
    assert (tmp_path / "precious").is_dir()
    clear_leftovers(tmp_path / "nowhere")
