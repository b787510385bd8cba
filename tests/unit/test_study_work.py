"""Work on a study, without training: one process at a time, signals at any moment, errors of one part of many."""

import errno
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_studies import HERE
from tests.unit.test_study_conduct import Machine, conducted, reasons_of, silent, study_of
from trainmark.cli.stored_studies import show
from trainmark.cli.study_run import carry_on
from trainmark.report.study_page import study_page
from trainmark.spec.errors import (
    ConfigError,
    InterruptedRunError,
    RunFailedError,
    RunNotFoundError,
    StorageError,
    TrainmarkError,
)
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.studies import make
from trainmark.studies.conduct import Watching, worked_on
from trainmark.studies.make import Asked, write_studies
from trainmark.studies.publish import conduct_and_publish
from trainmark.studies.record import StudyFolder, all_studies, find_study, read_study
from trainmark.studies.whole import make_all, publish_again

FIGURE = "threads-interop-1"
PUBLISHED = {"report.html", "table.csv", "table.json", f"{FIGURE}.svg", f"{FIGURE}.pdf"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def quiet() -> Watching:
    return silent(lambda record, each: None)


def files_of(folder: StudyFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()} & PUBLISHED


def test_who_may_not_work_on_a_study_does_not_publish_it_either(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    conduct_and_publish(folder, quiet())
    folder.csv.write_text("of the one who works on it")
    refused = rf"^Study {folder.study_id} is being worked on by process \d+ on "
    with worked_on(folder):
        with pytest.raises(RunFailedError, match=refused):
            conduct_and_publish(folder, quiet())
        with pytest.raises(RunFailedError, match=refused):
            publish_again(folder)
    assert folder.csv.read_text() == "of the one who works on it"
    publish_again(folder)
    assert folder.csv.read_text() != "of the one who works on it"


def while_publishing(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Does that after the table and the figures are written, before the page is."""

    def interrupted(sections: Any) -> str:
        then()
        return study_page(sections)

    monkeypatch.setattr("trainmark.studies.publish.study_page", interrupted)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_study_is_published_leaves_all_files_and_names_the_command(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, by: signal.Signals
) -> None:
    folder = study_of(tmp_path, repeats=1)
    while_publishing(monkeypatch, lambda: signal.raise_signal(by))
    said = f"^Stopped by {by.name}. Finished runs are kept; continue with: trainmark study resume {folder.path}$"
    with pytest.raises(InterruptedRunError, match=said):
        conduct_and_publish(folder, quiet())
    assert files_of(folder) == PUBLISHED


def three_signals() -> None:
    for _ in range(3):
        signal.raise_signal(signal.SIGINT)


def test_further_signals_do_not_stop_a_stopped_study_from_writing_its_files(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = study_of(tmp_path, repeats=2)
    machine.followed = {2: InterruptedRunError("Stopped by SIGINT")}
    while_publishing(monkeypatch, three_signals)
    with pytest.raises(InterruptedRunError, match="trainmark study resume"):
        conduct_and_publish(folder, quiet())
    assert files_of(folder) == PUBLISHED
    assert reasons_of(folder) == [None, "not run yet"]


def test_a_full_disk_ends_the_study_with_the_command_for_studies(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=2)
    machine.prepared = {1: OSError(errno.ENOSPC, "No space left on device")}
    said = f"^No space left in {folder.path}. Free some, then continue with: trainmark study resume {folder.path}$"
    with pytest.raises(StorageError, match=said):
        conduct_and_publish(folder, quiet())
    machine.prepared = {1: StorageError("runs has 0 B free. Free some space.")}
    said = rf"^runs has 0 B free. Free some space. Continue with: trainmark study resume {folder.path}$"
    with pytest.raises(StorageError, match=said):
        conduct_and_publish(folder, quiet())


def test_an_error_of_one_folder_is_the_outcome_of_its_run_and_the_others_go_on(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path, repeats=2)
    machine.prepared = {1: PermissionError(errno.EACCES, "Permission denied", "plan.json")}
    assert conducted(folder) == [(1, "plan.json: permission denied", [2]), (2, None, [])]
    assert reasons_of(folder) == ["plan.json: permission denied", None]


def test_reasons_that_cannot_be_kept_do_not_end_the_study(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=2)
    (folder.path / "failures").write_text("no folder")
    machine.prepared = {1: ConfigError("wrong")}
    assert conducted(folder) == [(1, "wrong", [2]), (2, None, [])]
    machine.prepared = {2: OSError(errno.EIO, "Input/output error", "disk")}
    shutil.rmtree(folder.run(read_study(folder).runs[1].run_id).path)
    with pytest.raises(OSError, match="Input/output error"):
        conducted(folder)


def test_a_study_without_any_of_its_runs_is_not_published_over(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    conduct_and_publish(folder, quiet())
    copy = StudyFolder(tmp_path / "far" / "away" / folder.study_id)
    shutil.copytree(folder.path, copy.path)
    for command in (publish_again, lambda each: show(str(each.path), tmp_path)):
        with pytest.raises(RunNotFoundError, match=rf"^Not one run of study {folder.study_id} is in {tmp_path}/far"):
            command(copy)
    shutil.rmtree(folder.run(read_study(folder).runs[0].run_id).path)
    with pytest.raises(RunNotFoundError, match="Not one run"):
        publish_again(folder)
    assert copy.csv.read_bytes() == folder.csv.read_bytes()


def test_a_study_that_may_not_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = study_of(tmp_path, repeats=1)
    secret = tmp_path / "studies" / "20200101-000000-other-0000"
    secret.mkdir()
    exists = Path.exists

    def denied(path: Path) -> bool:
        if path.parent == secret:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", denied)
    assert [each.path for each in all_studies(tmp_path)] == [secret, folder.path]
    assert find_study(folder.study_id, tmp_path) == folder


def test_a_place_that_holds_no_studies_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "studies").write_text("a file")
    with pytest.raises(RunNotFoundError, match=rf"cannot be read from {tmp_path}/studies: not a directory"):
        find_study("latest", tmp_path)
    with pytest.raises(RunNotFoundError, match="cannot be read"):
        find_study("x" * 5000, tmp_path)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """`all` of two studies that need no training."""
    monkeypatch.setattr(STUDIES, "in_listed_order", lambda: ["schedules", "threads"])
    records = make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    return write_studies(records, HERE, tmp_path)


def part_of(whole: StudyFolder, name: str) -> StudyFolder:
    return StudyFolder(whole.path.with_name(read_study(whole).parts[name]))


@pytest.mark.parametrize(
    "command",
    [lambda whole: carry_on(whole, as_json=False), lambda whole: show(str(whole.path), whole.runs_dir), publish_again],
)
def test_all_says_which_of_its_studies_are_gone(
    whole: StudyFolder, machine: Machine, command: Callable[[StudyFolder], object]
) -> None:
    gone = part_of(whole, "schedules")
    shutil.rmtree(gone.path)
    said = rf"^1 of 2 studies failed or are missing; the first, {gone.study_id}: its folder is missing\. "
    with pytest.raises(RunFailedError, match=said):
        command(whole)


def test_a_study_of_all_that_fails_costs_no_other(whole: StudyFolder, machine: Machine) -> None:
    part_of(whole, "schedules").record.write_text("{}")
    with pytest.raises(TrainmarkError, match=r"^1 of 2 studies failed .*study\.json cannot be read") as caught:
        carry_on(whole, as_json=False)
    assert caught.value.exit_code == 1
    assert part_of(whole, "threads").csv.exists() and "threads" in whole.page.read_text()


def test_all_is_written_before_its_parts_and_nothing_is_left_of_a_start_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STUDIES, "in_listed_order", lambda: ["schedules", "threads"])
    records = make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    written: list[str] = []
    write_study = make.write_study

    def until_full(record: Any, *place: Any) -> StudyFolder:
        written.append(record.study)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_study(record, *place)

    monkeypatch.setattr(make, "write_study", until_full)
    with pytest.raises(StorageError, match=rf"^No space left in {tmp_path}\. Free some"):
        write_studies(records, HERE, tmp_path)
    assert written == ["all", "threads", "schedules"]
    assert list((tmp_path / "studies").iterdir()) == []
