"""Lists the runs of a runs folder with the facts asked for: from the index where files are unchanged, else anew."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import trainmark
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.result import Result
from trainmark.spec.run_facts import COLUMNS, Facts, Row, facts_of, facts_without_result, row_of
from trainmark.spec.run_folder import RunFolder
from trainmark.store.index import Index, Indexed, UnusableIndexError
from trainmark.store.remove import clear_leftovers
from trainmark.store.runs import folder_names, is_run, read_result
from trainmark.store.tags import read_tags

BATCH = 500  # runs per transaction: what a killed process has read is not read again
SETTLED_S = 2.0  # a younger file may change again without a new time stamp


class Listing(NamedTuple):
    """Runs, oldest first, and notes about the index, if it could not be used."""

    rows: list[Row]
    notes: list[str]


@dataclass
class Lister:
    """How runs are listed: `build` makes the Result of a run that has not stored a current one."""

    cache_dir: Path
    build: Callable[[RunFolder], Result]
    progress: Callable[[int, int], None] = lambda done, total: None
    now: Callable[[], float] = time.time
    _notes: list[str] = field(default_factory=list)

    def list_runs(self, runs_dir: Path, names: Sequence[str] = (), *, reindex: bool = False) -> Listing:
        """Returns all runs with their columns and the facts of these names; `reindex` reads every file anew."""
        self._notes = []
        base, wanted = runs_dir.resolve(), list(dict.fromkeys((*COLUMNS, *names)))
        found = folder_names(runs_dir)
        index = Index(self.cache_dir, base)
        indexed = self._load(index, wanted)
        stamps = {name: stamp_of(f"{base}/{name}") for name in found}
        known = {} if reindex else {n: each for n, each in indexed.items() if each.stamp == stamps.get(n)}
        read = self._read(index, base, [name for name in found if name not in known], stamps, wanted)
        self._save(index, {}, gone=[name for name in indexed if name not in found])
        if reindex and not self._notes:
            self._forget_lost_folders(index)
        if index.was_damaged:
            self._notes.append(f"The index {index.path} was damaged; it was made anew from the run folders.")
        values: dict[str, Sequence[Any]] = {name: each.values for name, each in known.items()}
        values.update(read)
        clear_leftovers(base)
        rows = [
            row_of(name, str((base / name).resolve()) if found[name] else f"{base}/{name}", values[name], wanted)
            for name in found
            if name in values
        ]
        return Listing(rows, self._notes)

    def _read(
        self, index: Index, base: Path, names: list[str], stamps: dict[str, str | None], wanted: list[str]
    ) -> dict[str, list[Any]]:
        """Reads runs from their folders, and stores in the index what will not change."""
        values: dict[str, list[Any]] = {}
        batch: dict[str, tuple[str, Facts]] = {}
        for done, name in enumerate(names, start=1):
            if not is_run(base / name):
                continue
            facts, is_stored = self._facts_of(RunFolder((base / name).resolve()))
            values[name] = [facts.get(each) for each in wanted]
            stamp = stamps[name]
            if is_stored and stamp is not None and _newest(stamp) < self.now() - SETTLED_S:
                batch[name] = stamp, facts
            if len(batch) == BATCH or done == len(names):
                self._save(index, batch)
                batch = {}
            self.progress(done, len(names))
        self._save(index, batch)
        return values

    def _facts_of(self, folder: RunFolder) -> tuple[Facts, bool]:
        """Returns the facts of a run, and whether they are those of a stored Result that is current."""
        tags, problem = read_tags(folder)
        try:
            stored = read_result(folder)
            facts = facts_of(stored or self.build(folder), tags)
        except TrainmarkError as error:
            return facts_without_result(str(error), tags), False
        except Exception as error:  # noqa: BLE001  an unreadable run must not hide the others
            return facts_without_result(f"{type(error).__name__}: {error}", tags), False
        if problem:
            facts["damage"] = [*facts["damage"], problem]
        return facts, stored is not None and problem is None

    def _load(self, index: Index, wanted: list[str]) -> dict[str, Indexed]:
        try:
            return index.load(wanted)
        except UnusableIndexError as error:
            self._cannot_use(index, error)
            return {}

    def _save(self, index: Index, batch: dict[str, tuple[str, Facts]], gone: Sequence[str] = ()) -> None:
        if (not batch and not gone) or self._notes:
            return
        try:
            index.save(batch, gone)
        except UnusableIndexError as error:
            self._cannot_use(index, error)

    def _forget_lost_folders(self, index: Index) -> None:
        try:
            index.forget_lost_folders()
        except UnusableIndexError as error:
            self._cannot_use(index, error)

    def _cannot_use(self, index: Index, error: Exception) -> None:
        self._notes.append(f"The index {index.path} cannot be used ({error}); runs were read from their folders.")


def stamp_of(folder: str) -> str | None:
    """Returns what changes with the stored facts of a run: its Result, its tags, and claims of processes on it.

    A member is tried again under a new claim, which makes the stored Result old. None: there is no Result.
    """
    try:
        result = os.stat(f"{folder}/result.json")  # noqa: PTH116  ten thousand of them: Path is slow
    except OSError:
        return None
    stamps = [f"{result.st_mtime_ns} {result.st_size} {result.st_ino}"]
    for name in ("tags.json", "claims"):
        try:
            found = os.stat(f"{folder}/{name}")  # noqa: PTH116
            stamps.append(f"{found.st_mtime_ns} {found.st_size} {found.st_ino}")
        except OSError:
            stamps.append("0 0 0")
    return ", ".join([*stamps, trainmark.__version__])  # another version may read more of a Result


def _newest(stamp: str) -> float:
    """Returns the time of the newest change, in seconds."""
    return max(int(each.split()[0]) for each in stamp.split(", ")[:3]) / 1e9
