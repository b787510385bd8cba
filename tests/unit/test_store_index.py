"""The index answers as the run folders do, reads only what changed, and is never the only copy of anything."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_runs import killed_at, lister, never_built, settle, write_run
from trainmark.spec.run_folder import RunFolder
from trainmark.store import index, listing
from trainmark.store.index import SCHEMA, Index, cache_folder
from trainmark.store.listing import Lister
from trainmark.store.tags import change_tags

NAMES = ["flops", "train.precision", "software.torch", "tags"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number in range(3):
        write_run(tmp_path / "runs", number, 1e9 * number)
    return tmp_path / "runs"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs whose Result was read from their folders."""
    ids: list[str] = []
    plain = listing.read_result

    def noted(folder: RunFolder) -> Any:
        ids.append(folder.run_id)
        return plain(folder)

    monkeypatch.setattr(listing, "read_result", noted)
    return ids


def rows_of(runs: Path, cache: Path, **options: Any) -> list[dict[str, Any]]:
    found = lister(cache).list_runs(runs, NAMES, **options)
    assert found.notes == []
    return found.rows


def folder_of(runs: Path, number: int) -> RunFolder:
    return RunFolder(sorted(runs.iterdir())[number])


def database(cache: Path) -> sqlite3.Connection:
    return sqlite3.connect(cache / "results.sqlite", isolation_level=None)


def test_a_row_has_place_columns_metrics_settings_and_software(runs: Path, cache: Path) -> None:
    for _ in ("from the folder", "from the index"):
        row = rows_of(runs, cache)[1]
        assert row["run_id"] == "20261115-000001-image-classification-0001"
        assert row["path"] == f"{runs.resolve()}/{row['run_id']}"
        assert (row["state"], row["members"], row["flops"]) == ("complete", 2, 1e9)
        assert (row["train.precision"], row["software.torch"], row["tags"]) == ("fp32", "2.13.0+cpu", [])


def test_an_unchanged_run_is_read_once(runs: Path, cache: Path, read: list[str]) -> None:
    first = rows_of(runs, cache)
    assert len(read) == 3
    assert rows_of(runs, cache) == first
    assert len(read) == 3


def test_a_changed_result_tag_or_claim_makes_a_run_read_again(runs: Path, cache: Path, read: list[str]) -> None:
    rows_of(runs, cache)
    read.clear()
    shutil.rmtree(folder_of(runs, 0).path)
    write_run(runs, 0, 7e9)
    settle(folder_of(runs, 0), 1_000_000_007)
    change_tags(folder_of(runs, 1), ["+night"])
    folder_of(runs, 2).claim(1).write_text("")
    rows = rows_of(runs, cache)
    assert len(read) == 3
    assert [row["flops"] for row in rows] == [7e9, 1e9, 2e9]
    assert [row["tags"] for row in rows] == [[], ["night"], []]


def test_runs_that_come_and_go_are_listed_as_they_are(runs: Path, cache: Path) -> None:
    rows_of(runs, cache)
    shutil.rmtree(folder_of(runs, 0).path)
    write_run(runs, 5)
    assert [row["run_id"][9:15] for row in rows_of(runs, cache)] == ["000001", "000002", "000005"]
    assert database(cache).execute("SELECT count(*) FROM runs").fetchone() == (3,)


def test_a_young_result_is_read_again_as_it_could_change_within_one_time_stamp(
    runs: Path, cache: Path, read: list[str]
) -> None:
    young = Lister(cache, never_built, now=lambda: 1_000_000_001.0)
    young.list_runs(runs)
    young.list_runs(runs)
    assert len(read) == 6


def test_reindex_reads_everything_again(runs: Path, cache: Path, read: list[str]) -> None:
    first = rows_of(runs, cache)
    database(cache).execute("UPDATE runs SET often = json_set(often, '$[0]', 'failed')")
    assert [row["state"] for row in rows_of(runs, cache)] == ["failed"] * 3
    assert rows_of(runs, cache, reindex=True) == first
    assert rows_of(runs, cache) == first
    assert len(read) == 6


def test_one_database_keeps_runs_folders_apart(runs: Path, cache: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0, 5e9).path.parent
    rows_of(runs, cache)
    assert [row["flops"] for row in rows_of(other, cache)] == [5e9]
    assert [row["flops"] for row in rows_of(runs, cache)] == [0, 1e9, 2e9]
    assert sorted(path.name for path in cache.iterdir()) == ["results.sqlite"]


def test_reindex_forgets_runs_folders_that_are_gone(runs: Path, cache: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0, 5e9).path.parent
    rows_of(other, cache)
    rows_of(runs, cache)
    shutil.rmtree(other)
    rows_of(runs, cache)
    assert database(cache).execute("SELECT count(*) FROM runs").fetchone() == (4,)
    rows_of(runs, cache, reindex=True)
    assert database(cache).execute("SELECT path FROM folders").fetchall() == [(os.fsencode(runs.resolve()),)]
    assert database(cache).execute("SELECT count(*) FROM runs").fetchone() == (3,)


def test_a_runs_folder_is_known_by_its_real_path(runs: Path, cache: Path, tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "link").symlink_to(runs)
    assert rows_of(tmp_path / "link", cache) == rows_of(runs, cache)
    assert len(read) == 3


def test_an_index_of_another_schema_is_rebuilt(runs: Path, cache: Path) -> None:
    first = rows_of(runs, cache)
    other = database(cache)
    other.execute("DROP TABLE runs")
    other.execute("CREATE TABLE runs (of_the_future TEXT)")
    other.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    other.close()
    assert rows_of(runs, cache) == first
    assert database(cache).execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def test_a_run_read_by_another_version_of_trainmark_is_read_again(
    runs: Path, cache: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(runs, cache)
    monkeypatch.setattr("trainmark.__version__", "99.0")
    rows_of(runs, cache)
    assert len(read) == 6


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)


def without_a_table(path: Path) -> None:
    sqlite3.connect(path, isolation_level=None).execute("DROP TABLE runs")


def with_other_facts(path: Path) -> None:
    sqlite3.connect(path, isolation_level=None).execute("UPDATE runs SET facts = 'no JSON'")


def with_another_list(path: Path) -> None:
    sqlite3.connect(path, isolation_level=None).execute("UPDATE runs SET often = '[1, 2]'")


@pytest.mark.parametrize("damage", [truncated, overwritten, without_a_table, with_other_facts, with_another_list])
def test_a_damaged_index_is_made_anew_with_one_note(runs: Path, cache: Path, damage: Any) -> None:
    first = rows_of(runs, cache)
    damage(cache / "results.sqlite")
    found = lister(cache).list_runs(runs, NAMES)
    assert found.rows == first
    assert len(found.notes) == 1
    assert "was damaged; it was made anew" in found.notes[0]
    assert rows_of(runs, cache) == first


def test_a_file_that_is_no_database_is_replaced(runs: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "results.sqlite").write_text("something else " * 1000)
    found = lister(cache).list_runs(runs, NAMES)
    assert len(found.rows) == 3
    assert len(found.notes) == 1
    assert len(rows_of(runs, cache)) == 3


def test_without_a_usable_cache_folder_runs_are_listed_with_one_note(runs: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    found = lister(cache).list_runs(runs, NAMES)
    assert [row["flops"] for row in found.rows] == [0, 1e9, 2e9]
    assert len(found.notes) == 1
    assert "cannot be used (" in found.notes[0]
    assert "runs were read from their folders" in found.notes[0]


def test_while_another_process_holds_the_index_runs_are_listed_with_one_note(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rows_of(runs, cache)
    monkeypatch.setattr(index, "BUSY_S", 0.01)
    other = database(cache)
    other.execute("BEGIN EXCLUSIVE")
    found = lister(cache).list_runs(runs, NAMES)
    assert found.rows == first
    assert len(found.notes) == 1
    assert "locked" in found.notes[0]
    other.execute("ROLLBACK")
    other.close()
    assert rows_of(runs, cache) == first


def test_a_python_without_sqlite_lists_runs_with_one_note(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlite3", None)
    found = lister(cache).list_runs(runs, NAMES)
    assert len(found.rows) == 3
    (cache / "x").mkdir(parents=True)
    (note,) = lister(cache).list_runs(runs, NAMES).notes
    assert "cannot be used (this Python has no sqlite3)" in note


def test_a_run_of_a_newer_schema_or_a_damaged_one_is_listed_as_such_alone(runs: Path, cache: Path) -> None:
    write_run(runs, 7, schema="trainmark.result/2")
    write_run(runs, 8).result.write_text('{"schema": "trainmark.result/1", ')
    write_run(runs, 9).tags.write_text("[]")
    for _ in ("from the folder", "from the index"):
        rows = rows_of(runs, cache)
        assert [row["state"] for row in rows] == ["complete"] * 3 + ["unreadable"] * 2 + ["complete"]
        assert "its schema is trainmark.result/2, but this version of trainmark reads up to" in rows[3]["reason"]
        assert "cannot be read as a Result" in rows[4]["damage"][0]
        assert rows[5]["damage"] == ["tags.json does not hold tags as this version of trainmark knows them"]


def test_a_run_without_a_stored_result_is_built_each_time_and_never_indexed(runs: Path, cache: Path) -> None:
    stored = listing.read_result(folder_of(runs, 0))
    assert stored is not None
    folder_of(runs, 1).result.unlink()
    built = Lister(cache, lambda folder: stored.model_copy(update={"state": "unfinished"}))
    for _ in range(2):
        assert [row["state"] for row in built.list_runs(runs).rows] == ["complete", "unfinished", "complete"]
    assert database(cache).execute("SELECT count(*) FROM runs").fetchone() == (2,)


def test_folders_that_are_no_runs_are_not_listed(runs: Path, cache: Path) -> None:
    (runs / "data" / "shapes").mkdir(parents=True)
    (runs / "studies").mkdir()
    (runs / "notes.txt").write_text("")
    (runs / "broken-link").symlink_to("nowhere")
    assert len(rows_of(runs, cache)) == 3


def statements() -> Iterator[tuple[Any, str]]:
    """Where a process can be killed while it writes the index: before any statement."""

    class Killable(sqlite3.Connection):
        pass

    for name in ("execute", "executemany", "close"):
        setattr(Killable, name, partialmethod(getattr(sqlite3.Connection, name)))
        yield Killable, name
    plain = sqlite3.connect
    sqlite3.connect = lambda *given, **named: plain(*given, factory=Killable, **named)  # type: ignore[assignment]


@pytest.mark.parametrize("begun", ["no index", "an index", "one of another schema"])
def test_a_process_killed_at_any_statement_leaves_an_index_that_answers(
    runs: Path, cache: Path, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", sqlite3.connect)  # restored after the test
    if begun != "no index":
        rows_of(runs, cache)
        shutil.rmtree(folder_of(runs, 0).path)
        write_run(runs, 4)
    if begun == "one of another schema":
        database(cache).execute("PRAGMA user_version = 77")
    expected = lister(Path("/proc/no-cache")).list_runs(runs, NAMES).rows
    before = Path(f"{cache}.before")
    cache.mkdir(exist_ok=True)
    shutil.copytree(cache, before)
    owners = list(statements())
    call = 1
    while killed_at(call, owners, lambda: lister(cache).list_runs(runs, NAMES), monkeypatch):
        assert rows_of(runs, cache) == expected
        assert rows_of(runs, cache) == expected
        shutil.rmtree(cache)
        shutil.copytree(before, cache)
        call += 1
    assert call > 8  # statements were counted


def test_several_processes_at_once_all_answer(runs: Path, cache: Path) -> None:
    children = []
    for _ in range(6):
        if (child := os.fork()) == 0:
            try:
                rows = [lister(cache).list_runs(runs, NAMES, reindex=True).rows for _ in range(5)]
                os._exit(0 if all([row["flops"] for row in found] == [0, 1e9, 2e9] for found in rows) else 1)
            finally:
                os._exit(2)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6
    assert len(rows_of(runs, cache)) == 3


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TRAINMARK_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/h"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/h"}, "/b/trainmark"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/trainmark"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/trainmark"),
    ],
)
def test_the_index_is_in_the_users_cache_folder(environment: dict[str, str], expected: str) -> None:
    assert cache_folder(environment) == Path(expected)
    assert Index(cache_folder(environment), Path("/runs")).path == Path(expected) / "results.sqlite"
