"""A full disk ends a study's start or its work, and costs it nothing for good."""

from collections import namedtuple
from pathlib import Path

import pytest

from tests.unit.test_studies import HERE, made
from tests.unit.test_study_all import options
from trainmark.cli.study_run import start
from trainmark.spec.errors import StorageError
from trainmark.spec.run_folder import Places
from trainmark.studies.make import Asked, with_points
from trainmark.studies.whole import make_all

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.machine.storage.shutil.disk_usage", lambda path: Usage(12 << 20, 12 << 20, 100_000))


@pytest.mark.usefixtures("full")
def test_a_study_that_starts_on_a_full_disk_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match=r"has 97.66 KiB free, but this run writes about .* Free some space"
    ) as caught:
        made(tmp_path)
    assert caught.value.exit_code == 1
    with pytest.raises(StorageError):
        make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    with pytest.raises(StorageError):
        start(None, {}, options(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_points_added_on_a_full_disk_are_not_refused_for_good(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    record = made(tmp_path)
    request.getfixturevalue("full")
    with pytest.raises(StorageError):
        with_points(record, [record.points[0].point], HERE, Places.of(tmp_path))
