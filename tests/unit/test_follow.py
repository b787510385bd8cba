"""Several runs followed together: they take turns on one machine, and what ends one of them does not end the others."""

import errno
import json
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from tests.planned import planned_config
from trainmark.launch.follow import RunJobs, follow_jobs, raise_first, stop_message
from trainmark.launch.processes import ProcessCommand, ProcessLauncher
from trainmark.machine.claims import claimed, has_live_claim
from trainmark.machine.stop import stoppable
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import InterruptedRunError, RunFailedError, SchedulerError, StorageError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.result import Result
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot

SITE = Site(name="site", groups=(NodeGroup(names=("node1",), slots=(Slot(cores="0"), Slot(cores="1"))),))
WORKS = 'date +%s.%N >"$0/began"; sleep 0.15; date +%s.%N >"$0/ended"; echo {} >"$0/done.json"'


class Scripts:
    """Members are shell scripts: by member, or one that leaves a completion record."""

    def __init__(self, **scripts: str) -> None:
        self._scripts = scripts

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Anything goes."""

    def script(self, record: JobRecord) -> str:
        """Not to be run by hand."""
        return ""

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """The member's script, which is given the attempt's folder."""
        script = self._scripts.get(f"{record.folder.run_id}_{record.job.member}", WORKS)
        return [ProcessCommand("sh", ("sh", "-c", script, str(attempt.path)), {}, attempt.job_log)]

    def start_delay_s(self, record: JobRecord) -> float:
        """None."""
        return 0.0

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """The script's exit code says so."""
        return False

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """The exit code."""
        return f"ended with {codes[0]}"


def runs_of(tmp_path: Path, launcher: ProcessLauncher, *names: str, attempts: int = 1) -> list[RunJobs]:
    config = planned_config(launch={"attempts": attempts})
    found = []
    for name in names:
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir(exist_ok=True)
        jobs = [Job(m, m, (Rank(0, "node1", 0, (m,), None),)) for m in (0, 1)]
        found.append(RunJobs(launcher, folder, [JobRecord(folder, config, SITE, job) for job in jobs], lambda: None))
    return found


def follow(launcher: ProcessLauncher, runs: list[RunJobs]) -> list[str]:
    """The ids of the runs whose Results come, in this order."""
    return [str(each) for each in follow_jobs(launcher, runs, lambda folder: cast(Result, folder.run_id))]


def exits(run: RunJobs, attempt: int = 1) -> list[tuple[str, str | None]]:
    records = [json.loads(run.folder.attempt(member, attempt).exit.read_text()) for member in (0, 1)]
    return [(record["state"], record["reason"]) for record in records]


def times(run: RunJobs, name: str) -> list[float]:
    return [float((run.folder.attempt(member, 1).path / name).read_text()) for member in (0, 1)]


def test_three_runs_on_one_machine_take_turns_and_a_failing_one_in_the_middle_stops_no_other(tmp_path: Path) -> None:
    launcher = ProcessLauncher(Scripts(b_1="exit 3"))
    first, middle, last = runs = runs_of(tmp_path, launcher, "a", "b", "c")
    assert follow(launcher, runs) == ["a", "b", "c"]
    assert exits(first) == exits(last) == [("finished", None)] * 2
    assert exits(middle) == [("finished", None), ("failed", "ended with 3")]
    assert min(times(last, "began")) > max(times(first, "ended"))
    assert abs(times(last, "began")[0] - times(last, "began")[1]) < 0.1  # members of one run train side by side
    assert [run.error for run in runs] == [None] * 3
    assert [has_live_claim(run.folder) for run in runs] == [False] * 3


def test_a_run_is_claimed_while_it_is_followed_and_no_longer(tmp_path: Path) -> None:
    launcher = ProcessLauncher(Scripts())
    runs = runs_of(tmp_path, launcher, "a", "b")
    seen = []
    for run in runs:
        run.watch = lambda: seen.append([has_live_claim(each.folder) for each in runs])
    for _ in follow_jobs(launcher, runs, lambda folder: cast(Result, folder.run_id)):
        seen.append([has_live_claim(each.folder) for each in runs])
    assert sorted(map(tuple, {tuple(each) for each in seen})) == [(False, False), (False, True), (True, False)]


def test_a_run_that_another_process_works_on_fails_alone(tmp_path: Path) -> None:
    launcher = ProcessLauncher(Scripts())
    runs = runs_of(tmp_path, launcher, "a", "b", "c")
    with claimed(runs[1].folder):
        assert follow(launcher, runs) == ["a", "c"]
    with pytest.raises(RunFailedError, match=r"^Run b is being worked on by process"):
        raise_first([run.error for run in runs if run.error])
    assert not (runs[1].folder.path / "jobs").exists()


def test_a_full_disk_ends_its_run_with_what_there_is_and_not_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = ProcessLauncher(Scripts(a_0="exec sleep 60", a_1="exec sleep 60"))
    full, good = runs = runs_of(tmp_path, launcher, "a", "b")
    take_ended = launcher.take_ended

    def fails(folder: RunFolder) -> list[JobRecord]:
        if folder == full.folder:
            raise OSError(errno.ENOSPC, "No space left on device")
        return take_ended(folder)

    monkeypatch.setattr(launcher, "take_ended", fails)
    assert follow(launcher, runs) == ["a", "b"]  # the Result of the first says how far it came
    assert exits(full) == [("stopped", "stopped with the run")] * 2
    assert exits(good) == [("finished", None)] * 2
    assert isinstance(full.error, StorageError)
    assert f"trainmark resume {full.folder.path}" in str(full.error)


def test_an_interrupt_stops_the_run_that_trains_and_starts_no_other(tmp_path: Path) -> None:
    launcher = ProcessLauncher(Scripts(a_0="exec sleep 60", a_1="exec sleep 60"))
    runs = runs_of(tmp_path, launcher, "a", "b")
    runs[0].watch = lambda: signal.raise_signal(signal.SIGTERM)
    outcome = stop_message([run.folder for run in runs], launcher)
    expected = r"^Stopped by SIGTERM.*resume .*/a \(likewise for 1 more\)$"
    with pytest.raises(InterruptedRunError, match=expected), stoppable(outcome):
        follow(launcher, runs)
    assert exits(runs[0]) == [("stopped", "stopped with the run")] * 2
    assert list(runs[1].folder.path.iterdir()) == []
    again = ProcessLauncher(Scripts())
    assert follow(again, runs_of(tmp_path, again, "a", "b")) == ["a", "b"]
    assert exits(runs[0], attempt=2) == [("finished", None)] * 2
    assert exits(runs[1]) == [("finished", None)] * 2


def test_who_stops_listening_stops_the_runs(tmp_path: Path) -> None:
    launcher = ProcessLauncher(Scripts())
    runs = runs_of(tmp_path, launcher, "a", "b")
    results: Any = follow_jobs(launcher, runs, lambda folder: cast(Result, folder.run_id))
    assert next(results) == "a"
    results.close()
    assert list(runs[1].folder.path.iterdir()) == []


def test_each_run_has_tries_of_its_own(tmp_path: Path) -> None:
    once = 'case "$0" in *attempt-1) exit 3;; esac; echo {} >"$0/done.json"'
    launcher = ProcessLauncher(Scripts(a_0=once, b_0=once))
    runs = runs_of(tmp_path, launcher, "a", "b", attempts=2)
    assert follow(launcher, runs) == ["a", "b"]
    assert [[run.folder.num_attempts(member) for member in (0, 1)] for run in runs] == [[2, 1], [2, 1]]
    assert all(run.folder.attempt(0, 2).done.exists() for run in runs)


def test_errors_of_several_runs_are_counted() -> None:
    raise_first([])
    with pytest.raises(RunFailedError, match=r"^2 runs could not be followed to the end; the first: No space$"):
        raise_first([StorageError("No space"), OSError("other")])


@pytest.mark.parametrize(
    ("errors", "kind", "cause"),
    [
        ([SchedulerError("a"), SchedulerError("b")], SchedulerError, 0),
        ([StorageError("a"), StorageError("b")], StorageError, 0),
        ([OSError("a"), OSError("b")], RunFailedError, 0),
        ([SchedulerError("a"), RunFailedError("b")], RunFailedError, 0),
        ([RunFailedError("a"), OSError("b"), StorageError("c"), SchedulerError("d")], RunFailedError, 2),
    ],
)
def test_several_errors_keep_the_type_that_they_share_and_the_first_that_concerns_all_runs(
    errors: list[Exception], kind: type[Exception], cause: int
) -> None:
    with pytest.raises(kind, match=f"; the first: {errors[cause]}$") as caught:
        raise_first(errors)
    assert type(caught.value) is kind and caught.value.__cause__ is errors[cause]


def test_a_folder_that_is_too_full_to_be_claimed_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = ProcessLauncher(Scripts())
    full, good = runs = runs_of(tmp_path, launcher, "a", "b")

    def take(claim: Path, own: dict[str, Any]) -> bool:
        if claim.is_relative_to(full.folder.path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return True

    monkeypatch.setattr("trainmark.machine.claims._take", take)
    assert follow(launcher, runs) == ["b"]
    assert list(full.folder.path.iterdir()) == []
    assert isinstance(full.error, StorageError)
    assert exits(good) == [("finished", None)] * 2
