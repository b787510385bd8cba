"""Conducting a study without training: reasons that are kept, errors that end it, what is told, and Ctrl-C."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_studies import HERE, SPEED
from tests.unit.written_outcomes import result
from trainmark import pipeline
from trainmark.cli.study_progress import watching
from trainmark.launch.follow import raise_first, stop_message
from trainmark.report.study_progress import StudyProgress
from trainmark.spec.errors import (
    InterruptedRunError,
    PlanError,
    RunFailedError,
    SchedulerError,
    StorageError,
    TrainmarkError,
)
from trainmark.spec.registries import STUDIES
from trainmark.spec.result import Result
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.store.new_run import StudyMark
from trainmark.studies.conduct import Ended, Watching, conduct, launcher_of, worked_on
from trainmark.studies.make import Asked, make_study, write_study
from trainmark.studies.publish import analyse, conduct_and_publish, fail_unless_whole
from trainmark.studies.record import StudyFolder, read_study, write_record
from trainmark.studies.stored_outcomes import outcomes_of

POINT = "threads=1 interop=1 batch=8"  # of `study_of`
TOO_FEW = PlanError("Batch 200 is more than the 187 samples of member 0")


class Machine:
    """Prepares and follows runs as told, by round; all others give a complete Result at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runs_dir: Path) -> None:
        self.prepared: dict[int, Exception] = {}
        self.followed: dict[int, str | BaseException] = {}  # why a run failed, or what following it raises
        self._marks: dict[Path, StudyMark] = {}
        self._runs_dir = runs_dir
        monkeypatch.setattr("trainmark.studies.conduct.plan_point", lambda *planned, **options: None)
        monkeypatch.setattr(pipeline, "prepare", self._prepare)
        monkeypatch.setattr(pipeline, "follow", self._follow)

    def _prepare(self, planned: None, making: None, preparing: None, mark: StudyMark) -> RunFolder:
        if mark.round in self.prepared:
            raise self.prepared[mark.round]
        folder = RunFolder((self._runs_dir / mark.run_id).resolve())
        folder.attempt(0, 1).path.mkdir(parents=True)
        self._marks[folder.path] = mark
        return folder

    def known(self, folder: RunFolder) -> RunFolder:
        """Returns a folder of round 1 that was prepared earlier, with its first attempt."""
        folder.attempt(0, 1).path.mkdir(parents=True, exist_ok=True)
        self._marks[folder.path] = StudyMark(folder.run_id, folder.run_id.removesuffix("-p000r1"), POINT, 1)
        return folder

    def _follow(self, folders: Sequence[RunFolder], watch: object) -> Iterator[Result]:
        errors: list[Exception] = []
        for folder in folders:
            answer = self.followed.get(self._marks[folder.path].round)
            if isinstance(answer, Exception):
                errors.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found = result_of(self._marks[folder.path], answer)
                folder.result.write_text(found.as_json())
                yield found
        raise_first(errors)


def result_of(mark: StudyMark, failure: str | None = None) -> Result:
    """The Result of a run of a study."""
    written = result({SPEED: 500})
    provenance = {**written.provenance, "study": mark._asdict()}
    found = written.model_copy(update={"run_id": mark.run_id, "provenance": provenance})
    if failure is None:
        return found
    member = found.members[0].model_copy(update={"state": "failed", "reason": failure})
    return found.model_copy(update={"state": "failed", "members": [member]})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def study_of(tmp_path: Path, repeats: int, launcher: str = "local") -> StudyFolder:
    """One point, so that the order of the runs is that of the rounds."""
    asked = Asked(axes={"threads": (1,), "batch": (8,)}, repeats=repeats)
    record = make_study(STUDIES.load("threads"), asked, HERE, Places.of(tmp_path))
    base = {**record.base, "launch": {"launcher": launcher}}
    return write_study(record.model_copy(update={"base": base}), HERE, tmp_path)


def silent(ended: Callable[..., None]) -> Watching:
    nothing: Any = lambda: None  # noqa: E731
    runs: Callable[[], AbstractContextManager[Any]] = nullcontext
    return Watching(runs, nothing, nothing, ended=ended)


def conducted(folder: StudyFolder) -> list[tuple[int, str | None, list[int]]]:
    """What is told: round, reason and the rounds left, as each run ends."""
    told: list[tuple[int, str | None, list[int]]] = []

    def ended(record: object, each: Ended) -> None:
        told.append((each.run.round, each.outcome.reason, [run.round for run in each.left]))

    with worked_on(folder):
        conduct(folder, silent(ended))
    return told


def reasons_of(folder: StudyFolder) -> list[str | None]:
    return [run.reason for run in outcomes_of(folder, read_study(folder)).points[0].runs]


def test_a_run_that_fails_in_preparation_is_a_gap_with_its_reason_until_it_is_tried_again(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path, repeats=2)
    assert reasons_of(folder) == ["not run yet"] * 2
    machine.prepared = {2: TOO_FEW}
    found, table = conduct_and_publish(folder, silent(lambda record, each: None))
    assert reasons_of(folder) == [None, str(TOO_FEW)]
    assert str(table.rows[0]["note"]).startswith(f"1 of 2 runs missing: {TOO_FEW}")
    with pytest.raises(RunFailedError, match=rf"1 of 2 runs have no Result; the first, .*-p000r2: {TOO_FEW}\. Try"):
        fail_unless_whole(folder, [found])
    machine.prepared = {}
    assert conducted(folder) == [(2, None, [])]
    assert reasons_of(folder) == [None, None]
    assert list((folder.path / "failures").iterdir()) == []


def test_a_reason_is_stored_before_the_next_run_starts_and_is_gone_once_its_run_is_tried_again(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path, repeats=2)
    machine.prepared, machine.followed = {1: TOO_FEW}, {2: InterruptedRunError("Stopped by SIGTERM")}
    with pytest.raises(InterruptedRunError):
        conduct(folder, silent(lambda record, each: None))
    assert reasons_of(folder) == [str(TOO_FEW), "not run yet"]
    machine.prepared, machine.followed = {}, {1: InterruptedRunError("Stopped by SIGINT")}
    with pytest.raises(InterruptedRunError):
        conduct(folder, silent(lambda record, each: None))
    assert reasons_of(folder) == ["not run yet"] * 2


def test_the_runs_left_are_those_that_are_missing_and_have_not_ended(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=4)
    machine.prepared = {2: TOO_FEW}
    assert conducted(folder) == [(1, None, [2, 3, 4]), (2, str(TOO_FEW), [3, 4]), (3, None, [4]), (4, None, [])]
    machine.prepared = {}
    assert conducted(folder) == [(2, None, [])]


def test_runs_that_were_told_as_failed_are_not_told_again_with_the_error_of_others(
    tmp_path: Path, machine: Machine
) -> None:
    folder = study_of(tmp_path, repeats=3, launcher="slurm")
    machine.followed = {1: RunFailedError("claimed"), 2: "rank 0 failed", 3: RunFailedError("damaged")}
    error = "2 runs could not be followed to the end; the first: claimed"
    assert conducted(folder) == [(2, "failed: rank 0 failed", [1, 3]), (1, error, [3]), (3, error, [])]
    assert reasons_of(folder) == [error, "failed: rank 0 failed", error]


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([SchedulerError("sbatch does not answer")] * 2, SchedulerError),
        ([StorageError("not writable")] * 2, StorageError),
        ([RunFailedError("claimed"), SchedulerError("sbatch does not answer")], RunFailedError),
    ],
)
def test_lost_schedulers_and_full_disks_end_the_study_however_many_runs_they_hit(
    tmp_path: Path, machine: Machine, errors: list[Exception], raised: type[TrainmarkError]
) -> None:
    folder = study_of(tmp_path, repeats=2, launcher="slurm")
    machine.followed = dict(enumerate(errors, 1))
    with pytest.raises(raised, match=r"^2 runs could not be followed to the end; the first: (sbatch|not writable)"):
        conducted(folder)
    assert reasons_of(folder) == ["not run yet"] * 2


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        ("local", "Stopped by SIGINT. Finished runs are kept; continue with: trainmark study resume {}"),
        ("slurm", "Stopped by SIGINT; submitted jobs continue. Collect them with: trainmark study resume {}"),
    ],
)
def test_a_stopped_study_says_whether_its_jobs_go_on(
    tmp_path: Path, machine: Machine, launcher: str, said: str
) -> None:
    folder = study_of(tmp_path, repeats=1, launcher=launcher)
    of_run = stop_message([RunFolder(tmp_path / "run")], launcher_of(read_study(folder)))
    machine.followed = {1: InterruptedRunError(f"Stopped by SIGINT{of_run}")}
    with pytest.raises(InterruptedRunError) as caught:
        conducted(folder)
    assert str(caught.value) == said.format(folder.path)


def test_the_page_counts_the_points_that_run(tmp_path: Path) -> None:
    asked = Asked(axes={"threads": (1,), "batch": (8, 100_000)}, repeats=3)
    record = make_study(STUDIES.load("threads"), asked, HERE, Places.of(tmp_path))
    folder = write_study(record, HERE, tmp_path)
    facts = dict(analyse(folder, record, outcomes_of(folder, record)).facts)
    assert facts["runs"] == f"3: 1 of 2 points × 3, in {tmp_path.name}"


class Lines:
    """A console that keeps what is printed."""

    def __init__(self) -> None:
        self.printed: list[str] = []

    def print(self, line: str, **options: object) -> None:
        """Keeps the line."""
        self.printed.append(line)


def lines_of(folder: StudyFolder) -> list[str]:
    """What is shown as runs end, each of which took ten minutes that were expected to be twenty."""
    record = read_study(folder)
    points = tuple(each.model_copy(update={"seconds": (1200.0, 1200.0)}) for each in record.points)
    write_record(folder, record.model_copy(update={"points": points}))
    lines = Lines()
    shown = watching(StudyProgress(lines))  # type: ignore[arg-type]
    conduct(folder, silent(lambda record, each: shown.ended(record, each._replace(seconds=600.0))))
    return lines.printed


def test_runs_in_turn_show_how_long_the_others_will_take(tmp_path: Path, machine: Machine) -> None:
    assert lines_of(study_of(tmp_path, repeats=3)) == [
        "  500 samples/s, 10 min 00 s; 2 runs left, about 20 min 00 s",
        "  500 samples/s, 10 min 00 s; 1 run left, about 10 min 00 s",
        "  500 samples/s, 10 min 00 s",
    ]


def test_runs_side_by_side_show_which_one_ended_and_no_sum_of_times(tmp_path: Path, machine: Machine) -> None:
    machine.followed = {1: "rank 0 failed"}
    assert lines_of(study_of(tmp_path, repeats=3, launcher="slurm")) == [
        "  2 runs left after threads=1 interop=1 batch=8, round 1: failed: rank 0 failed, 10 min 00 s",
        "  1 run left after threads=1 interop=1 batch=8, round 2: 500 samples/s, 10 min 00 s",
        "  0 runs left after threads=1 interop=1 batch=8, round 3: 500 samples/s, 10 min 00 s",
    ]
