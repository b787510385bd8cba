"""Generated datasets: made once beside the runs, whole or not at all, and found again by their settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainmark.data.folders import is_made, made_folder, make_into, make_missing, with_folder
from trainmark.data.split import Problem
from trainmark.plan.resolve import Choices, resolve_config
from trainmark.spec.config import RunConfig, StrictSection
from trainmark.spec.errors import DataError


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
                    raise OSError("no space")
                file.write(f"{number}\n")
                progress(number + 1, self.settings.words)

    def check(self) -> Iterator[Problem]:
        yield from ()


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setattr(Notes, "made", 0)
    return resolve_config([Choices("test", {"dataset": f"{__name__}:Notes"})])


def changed(config: RunConfig, **data: Any) -> RunConfig:
    return config.model_copy(update={"data": {**config.data, **data}})


def test_data_are_made_once_for_all_runs_of_the_same_settings(config: RunConfig, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    make_missing(config, tmp_path, lambda made, total: told.append((made, total)))
    make_missing(config, tmp_path, lambda made, total: told.append((made, total)))
    folder = Path(with_folder(config, tmp_path)["path"])
    assert Notes.made == 1 and told == [(1, 3), (2, 3), (3, 3)]
    assert (folder / "words.txt").read_text() == "0\n1\n2\n"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_other_settings_are_other_data(config: RunConfig, tmp_path: Path) -> None:
    assert made_folder(config, tmp_path) != made_folder(changed(config, words=4), tmp_path)


def test_data_with_a_path_are_left_alone(config: RunConfig, tmp_path: Path) -> None:
    told = changed(config, path="/data/notes")
    make_missing(told, tmp_path, lambda made, total: None)
    assert not is_made(told) and Notes.made == 0
    assert with_folder(told, tmp_path)["path"] == "/data/notes"


def test_making_that_fails_leaves_nothing_behind(config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no space"):
        make_missing(changed(config, fails_at=1), tmp_path, lambda made, total: None)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(DataError, match=r"full exists already\. Choose a folder that does not exist, or is empty"):
        make_into(Notes(NotesSettings()), tmp_path / "full", lambda made, total: None)
    (tmp_path / "empty").mkdir()
    make_into(Notes(NotesSettings()), tmp_path / "empty", lambda made, total: None)
    assert (tmp_path / "empty" / "words.txt").exists()
