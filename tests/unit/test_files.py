"""Files are written whole or not at all; events survive torn lines."""

import errno
import os
import stat
from pathlib import Path

import pytest

from trainmark.spec.event_files import read_events
from trainmark.spec.files import read_json, remove_leftovers, write_atomically, write_json, write_text


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")

    def fail(file: object) -> None:
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_reported_under_the_files_own_name(tmp_path: Path) -> None:
    name = "x" * 250  # with what is added while it is written, longer than the 255 that a name may have
    with pytest.raises(OSError, match="File name too long") as error:
        write_text(tmp_path / name, "text")
    assert error.value.filename == str(tmp_path / name)


def test_an_error_while_writing_or_replacing_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    def full(file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as error:
        write_atomically(tmp_path / "a.json", full)
    assert error.value.filename == str(tmp_path / "a.json")
    (tmp_path / "table.csv" / "of the user").mkdir(parents=True)
    with pytest.raises(OSError, match="directory") as error:
        write_text(tmp_path / "table.csv", "text")
    assert (error.value.filename, error.value.filename2) == (str(tmp_path / "table.csv"), None)


def test_a_pipe_is_refused_instead_of_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(OSError, match="Not a regular file"):
        read_json(tmp_path / "a.json")
    with pytest.raises(IsADirectoryError):
        read_json(tmp_path)
    assert read_events(tmp_path / "a.json") == ([], 0)


def test_what_killed_processes_left_of_their_files_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = [".table.csv.a1_b2c3d", ".0001.json.0123456789abcdef", "..0001.json.0123456789abcdef.a1b2c3d4"]
    kept = ["table.csv", ".hidden.json", ".reserve-exit", ".table.csv.backup-of-mine", "0001.json"]
    for name in (*left, *kept):
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path, older_than_s=60)
    assert len(list(tmp_path.iterdir())) == 8
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_nan_is_refused_because_it_is_not_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_files_are_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_half_written_last_event_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"kind":"start_wait","wall_s":1}\n{"kind":"finished","wall_s":2')
    events, offset = read_events(path)
    assert [event.kind for event in events] == ["start_wait"]
    with path.open("ab") as file:
        file.write(b"}\n")
    assert [event.kind for event in read_events(path, offset)[0]] == ["finished"]


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"kind":"start_wait","wall_s":1}\n{"ki\x00\xff\n{"kind":"finished","wall_s":2}\n')
    assert [event.kind for event in read_events(path)[0]] == ["start_wait", "finished"]


def test_a_missing_event_file_is_empty(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none") == ([], 0)
