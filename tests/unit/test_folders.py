"""Generated datasets: made once for all runs, whole or not at all, and found again by their settings."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.planned import planned_config
from trainmark.data.folders import generate_into, generate_missing, generated_folder, is_generated, with_folder
from trainmark.data.split import Problem
from trainmark.spec.config import RunConfig, StrictSection
from trainmark.spec.errors import DataError, StorageError


class NotesSettings(StrictSection):
    path: str | None = None
    words: int = 3
    fails_at: int = -1


class Notes:
    """A dataset of one text file."""

    Settings = NotesSettings
    made = 0

    def __init__(self, settings: NotesSettings) -> None:
        self.settings = settings

    def num_samples(self, split: str) -> int:
        return self.settings.words

    def make(self, folder: Path, progress: Any) -> None:
        Notes.made += 1
        with (folder / "words.txt").open("w") as file:
            for number in range(self.settings.words):
                if number == self.settings.fails_at:
                    raise OSError(errno.ENOSPC, "in .Notes")
                file.write(f"{number}\n")
                progress(number + 1, self.settings.words)

    def check(self) -> Iterator[Problem]:
        yield from ()


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setattr(Notes, "made", 0)
    return planned_config(dataset=f"{__name__}:Notes")


def changed(config: RunConfig, **data: Any) -> RunConfig:
    return config.model_copy(update={"data": {**config.data, **data}})


def test_data_are_made_once_for_all_runs_of_the_same_settings(config: RunConfig, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    generate_missing(config, tmp_path, lambda made, total: told.append((made, total)))
    generate_missing(config, tmp_path, lambda made, total: told.append((made, total)))
    folder = Path(with_folder(config, tmp_path)["path"])
    assert Notes.made == 1 and told == [(1, 3), (2, 3), (3, 3)]
    assert (folder / "words.txt").read_text() == "0\n1\n2\n"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_other_settings_are_other_data(config: RunConfig, tmp_path: Path) -> None:
    assert generated_folder(config, tmp_path) != generated_folder(changed(config, words=4), tmp_path)


def test_the_same_data_serve_all_ways_of_reading_them(tmp_path: Path) -> None:
    def folder(**data: Any) -> Path:
        return generated_folder(planned_config(workload="artworks", data=data), tmp_path)

    assert folder() == folder(input="lr") == folder(side=64) == folder(max_megapixels=9.0)
    assert folder() != folder(mean_megapixels=0.04)
    plain = planned_config(dataset="imagenet")
    # Named as before images could be left as they are, so that data of earlier versions are found.
    assert generated_folder(plain, tmp_path).name == "imagenet-31f1b7c31b04"
    as_they_are = plain.model_copy(update={"data": {**plain.data, "resize": "none"}})
    assert generated_folder(as_they_are, tmp_path) == generated_folder(plain, tmp_path)


def test_data_with_a_path_are_left_alone(config: RunConfig, tmp_path: Path) -> None:
    told = changed(config, path="/data/notes")
    generate_missing(told, tmp_path, lambda made, total: None)
    assert not is_generated(told) and Notes.made == 0
    assert with_folder(told, tmp_path)["path"] == "/data/notes"


def test_making_that_fails_leaves_nothing_behind(config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"/Notes-\w+ cannot be written: no space left on device\. .*--data-dir"):
        generate_missing(changed(config, fails_at=1), tmp_path, lambda made, total: None)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_others_are_making_is_not(
    config: RunConfig, tmp_path: Path
) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    data, here = tmp_path / "data", socket.gethostname()
    theirs = [f".Notes-00.{here}.{os.getpid()}", f".Notes-00.elsewhere.{gone.stdout.strip()}", ".mine"]
    for name in (f".Notes-00.{here}.{gone.stdout.strip()}", *theirs):
        (data / name).mkdir(parents=True)
    generate_missing(config, data, lambda made, total: None)
    assert sorted(path.name for path in data.iterdir() if path.name.startswith(".")) == sorted(theirs)


def test_only_folders_of_the_same_name_are_removed_where_somebody_says_where_data_are_made(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = [f".{name}.{socket.gethostname()}.{gone.stdout.strip()}" for name in ("notes", "other")]
    for name in left:
        (tmp_path / name).mkdir()
    generate_into(Notes(NotesSettings()), tmp_path / "notes", lambda made, total: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == [left[1], "notes"]


def test_data_that_do_not_fit_are_refused_before_they_are_made(tmp_path: Path) -> None:
    class Huge(Notes):
        made_bytes = 2**60

    with pytest.raises(
        StorageError, match=r"free, but generating these data writes about 1 EiB\. .*num_train.*another fol"
    ):
        generate_into(Huge(NotesSettings()), tmp_path / "huge", lambda made, total: None)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(DataError, match=r"full exists already\. Choose a folder that does not exist, or is empty"):
        generate_into(Notes(NotesSettings()), tmp_path / "full", lambda made, total: None)
    (tmp_path / "empty").mkdir()
    generate_into(Notes(NotesSettings()), tmp_path / "empty", lambda made, total: None)
    assert (tmp_path / "empty" / "words.txt").exists()
