"""The index of stored Results: an SQLite cache on this machine that can be rebuilt from the run folders at any time."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmark.spec.run_facts import OFTEN_ASKED, Facts

if TYPE_CHECKING:
    import sqlite3

SCHEMA = 1  # of the index; one of another number is dropped and rebuilt
BUSY_S = 2.0  # to wait for another process that writes
TABLES = (
    "CREATE TABLE folders (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE)",
    "CREATE TABLE runs (folder INTEGER NOT NULL, run BLOB NOT NULL, stamp TEXT NOT NULL, often TEXT NOT NULL, "
    "facts TEXT NOT NULL, PRIMARY KEY (folder, run))",
)
# Errors of the place, not of the content: permissions, locks, full disks (sqlite.org/rescode.html, primary codes).
OF_PLACE = {3: "no permission", 5: "locked", 6: "locked", 8: "read-only", 10: "I/O error", 13: "full", 14: "unreadable"}


class UnusableIndexError(Exception):
    """Why the index cannot be used now; everything works without it."""


class _DamagedIndexError(Exception):
    """The file is no index, or a damaged one."""


class Indexed(NamedTuple):
    """What the index holds of a run: the stamp of its files when they were read, and the facts asked for."""

    stamp: str
    values: Sequence[Any]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Returns the folder of the index: $TRAINMARK_CACHE_DIR, else trainmark in $XDG_CACHE_HOME or ~/.cache."""
    if own := environment.get("TRAINMARK_CACHE_DIR"):
        return Path(own)
    shared = environment.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():  # the specification says to ignore others
        return Path(shared) / "trainmark"
    return Path(environment.get("HOME") or "~").expanduser() / ".cache" / "trainmark"


class Index:
    """The index of one runs folder; the file has those of all runs folders of this user."""

    def __init__(self, cache_dir: Path, runs_dir: Path) -> None:
        self.path = cache_dir / "results.sqlite"
        self.was_damaged = False
        self._folder = os.fsencode(runs_dir)

    def load(self, names: Sequence[str]) -> dict[str, Indexed]:
        """Returns the indexed runs by id, with the facts of these names (None where a run has none)."""
        if not self.path.parent.exists():
            return {}
        try:
            return self._load(names)
        except _DamagedIndexError:
            self._discard()
            return {}

    def save(self, changed: Mapping[str, tuple[str, Facts]], gone: Iterable[str] = ()) -> None:
        """Stores stamp and facts of changed runs, and forgets runs that are gone, in one transaction."""
        rows = [(os.fsencode(run), stamp, *_as_json(facts)) for run, (stamp, facts) in changed.items()]
        try:
            self._save(rows, [os.fsencode(run) for run in gone])
        except _DamagedIndexError:
            self._discard()
            with suppress(_DamagedIndexError):  # twice at once: another time
                self._save(rows, [])

    def forget_lost_folders(self) -> None:
        """Forgets runs folders that no longer exist; they are read again if they come back."""
        with suppress(_DamagedIndexError), self._connected() as database:
            for folder, path in database.execute("SELECT id, path FROM folders").fetchall():
                if not os.path.isdir(path):  # noqa: PTH112  bytes
                    database.execute("BEGIN IMMEDIATE")
                    database.execute("DELETE FROM runs WHERE folder = ?", (folder,))
                    database.execute("DELETE FROM folders WHERE id = ?", (folder,))
                    database.execute("COMMIT")

    def _load(self, names: Sequence[str]) -> dict[str, Indexed]:
        """Facts that are often asked for are stored as an array; others are extracted by SQLite, which takes longer."""
        further = [name for name in names if name not in OFTEN_ASKED]
        paths = [f'$."{name}"' for name in ("state", *further)]  # two at least: SQLite then gives an array
        extracted = f"json_extract(facts, {', '.join('?' * len(paths))})" if further else "'[null]'"
        with self._connected() as database:
            found = database.execute(
                f"SELECT run, stamp, often, {extracted} FROM runs "
                "WHERE folder = (SELECT id FROM folders WHERE path = ?)",
                (*(paths if further else ()), self._folder),
            ).fetchall()
            often, others = (json.loads(f"[{','.join(row[i] for row in found)}]") for i in (2, 3))
            places = {name: place for place, name in enumerate((*OFTEN_ASKED, "", *further))}
            wanted = itemgetter(*(places[name] for name in names), 0, 0)  # a tuple, however few names
            values = [wanted(one + other)[:-2] for one, other in zip(often, others, strict=True)]
            return {os.fsdecode(row[0]): Indexed(row[1], of_run) for row, of_run in zip(found, values, strict=True)}

    def _save(self, rows: list[tuple[bytes, str, str, str]], gone: list[bytes]) -> None:
        with self._connected() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT OR IGNORE INTO folders (path) VALUES (?)", (self._folder,))
            (folder,) = database.execute("SELECT id FROM folders WHERE path = ?", (self._folder,)).fetchone()
            database.executemany("DELETE FROM runs WHERE folder = ? AND run = ?", [(folder, run) for run in gone])
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", [(folder, *row) for row in rows])
            database.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator["sqlite3.Connection"]:
        """Yields a connection to an index of this schema; sorts errors into those of the place and damage."""
        try:
            import sqlite3
        except ImportError as error:
            raise UnusableIndexError("this Python has no sqlite3") from error
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)) as database:
                if database.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                    _create_tables(database)
                yield database
        except OSError as error:
            raise UnusableIndexError(error.strerror or str(error)) from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 1) & 0xFF  # the primary part
            if code in OF_PLACE:
                raise UnusableIndexError(f"{OF_PLACE[code]}: {error}") from error
            raise _DamagedIndexError(str(error)) from error
        except (ValueError, TypeError, IndexError) as error:  # content that is not ours
            raise _DamagedIndexError(str(error)) from error

    def _discard(self) -> None:
        """Removes a damaged file; the journal first, as it must not be taken for that of a new file."""
        self.was_damaged = True
        try:
            with suppress(FileNotFoundError):
                self.path.with_name(f"{self.path.name}-journal").unlink()
            with suppress(FileNotFoundError):
                self.path.unlink()
        except OSError as error:
            raise UnusableIndexError(f"damaged, and cannot be removed: {error.strerror}") from error


def _as_json(facts: Facts) -> tuple[str, str]:
    """Returns the facts that are often asked for, as an array, and all facts."""
    often = [facts.get(name) for name in OFTEN_ASKED]
    return json.dumps(often, allow_nan=False), json.dumps(facts, allow_nan=False)


def _create_tables(database: "sqlite3.Connection") -> None:
    """Creates the tables, in place of those of another schema."""
    database.execute("BEGIN IMMEDIATE")
    if database.execute("PRAGMA user_version").fetchone() != (SCHEMA,):  # another process may have been faster
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            database.execute(f'DROP TABLE "{table}"')
        for statement in TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {SCHEMA}")
    database.execute("COMMIT")
