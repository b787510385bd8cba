"""Tags and notes of runs: a small file in the run folder, written whole or not at all."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.unit.written_runs import killed_at, write_run
from trainmark.report.result_table import tag_lines
from trainmark.spec.errors import ConfigError, RunNotFoundError, StorageError
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.tags import MAX_NOTE, RunTags
from trainmark.store.tags import change_tags, read_tags


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path / "runs", 1)


def test_tags_are_added_and_removed_and_sorted(run: RunFolder) -> None:
    assert read_tags(run) == (RunTags(), None)
    assert change_tags(run, ["+night", "baseline"]).tags == ("baseline", "night")
    assert change_tags(run, ["-night", "+a.b_c-1", "+baseline"]).tags == ("a.b_c-1", "baseline")
    assert read_tags(run)[0].tags == ("a.b_c-1", "baseline")


def test_a_note_is_replaced_kept_and_removed(run: RunFolder) -> None:
    assert change_tags(run, ["+x"], " after the BIOS update\n").note == "after the BIOS update"
    assert change_tags(run, ["+y"]).note == "after the BIOS update"
    assert change_tags(run, [], "other") == RunTags(tags=("x", "y"), note="other")
    assert change_tags(run, [], "") == RunTags(tags=("x", "y"))


def test_the_file_is_plain_json_that_survives_a_copy(run: RunFolder, tmp_path: Path) -> None:
    change_tags(run, ["+baseline"], "é")
    assert json.loads(run.tags.read_text()) == {"schema": "trainmark.tags/1", "tags": ["baseline"], "note": "é"}
    shutil.copytree(run.path, tmp_path / "copy")
    assert read_tags(RunFolder(tmp_path / "copy"))[0].tags == ("baseline",)


@pytest.mark.parametrize("name", ["", "+", "-", "1st", "+a b", "é", "+-x", "x/y", "x" * 65, "a=b", "'"])
def test_what_is_no_tag_is_refused_and_nothing_is_written(run: RunFolder, name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a tag\. Tags begin with a letter"):
        change_tags(run, ["+good", name])
    assert not run.tags.exists()


def test_a_tag_that_is_not_there_cannot_be_removed(run: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"no tag 'x' to remove\. It has none"):
        change_tags(run, ["-x"])
    change_tags(run, ["+y"])
    with pytest.raises(ConfigError, match=r"no tag 'x' to remove\. It has: y"):
        change_tags(run, ["-x"])


def test_a_note_of_many_pages_is_refused(run: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"4,001 characters"):
        change_tags(run, [], "x" * (MAX_NOTE + 1))


def test_a_damaged_file_of_tags_is_named_and_not_overwritten(run: RunFolder) -> None:
    run.tags.write_text('{"schema": "trainmark.tags/2", "tags": ["kept"]}')
    with pytest.raises(RunNotFoundError, match=r"tags\.json does not hold tags .* Move it away"):
        change_tags(run, ["+x"])
    assert "kept" in run.tags.read_text()


def test_a_read_only_run_says_what_to_do(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**named: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.mkstemp", refuse)  # permissions do not bind root, who may run the tests
    with pytest.raises(StorageError, match=r"cannot be tagged: read-only file system\. Make .* writable"):
        change_tags(run, ["+x"])


WRITES = [(os, name) for name in ("replace", "fsync", "chmod", "unlink", "open")]


def test_a_process_killed_at_any_write_leaves_the_old_tags_or_the_new_ones(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_tags(run, ["+old"])
    call, seen = 1, set()
    while killed_at(call, WRITES, lambda: change_tags(run, ["+new"], "note"), monkeypatch):
        tags, problem = read_tags(run)
        assert problem is None
        seen.add(tags)
        change_tags(run, ["+old"])  # works on
        call += 1
    assert call > 3
    assert seen == {RunTags(tags=("old",))}
    assert read_tags(run)[0] == RunTags(tags=("new", "old"), note="note")


def test_processes_that_tag_at_once_lose_no_tag(run: RunFolder) -> None:
    children = []
    for number in range(8):
        if (child := os.fork()) == 0:
            try:
                change_tags(run, [f"+t{number}"])
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert read_tags(run)[0].tags == tuple(f"t{number}" for number in range(8))


def test_tags_and_note_are_shown_on_lines_of_their_own() -> None:
    assert tag_lines(RunTags()) == []
    assert tag_lines(RunTags(tags=("a", "b"), note="why")) == ["tags: a b", "note: why"]
