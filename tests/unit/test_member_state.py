"""`trainmark show` and `trainmark status` say the same of a member, by its files, Slurm and its launcher."""

import json
from pathlib import Path

import pytest

from trainmark.collect.build import build_result
from trainmark.collect.progress import read_progress
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.files import write_json
from trainmark.spec.member_state import End, MemberStatus, RunActivity, end_of, member_status, recorded_status
from trainmark.spec.plan import Job, Rank
from trainmark.spec.run_folder import AttemptFolder, Places, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.status import MemberState, QueueAnswer, QueueState
from trainmark.store.new_run import write_run

SITE = Site(name="site", groups=(NodeGroup(slots=(Slot(cores=(0,)),)),))
SETTINGS = ("launch.launcher=slurm", "data.num_train=100", "data.num_eval=10", "ensemble.members=1")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run on Slurm of one member, whose first attempt has started to train."""
    config, plan = make_plan(resolve_config([parse_setting(text) for text in SETTINGS]), SITE)
    folder = write_run(config, plan, SITE, Places.of(tmp_path_factory.mktemp("runs")))
    attempt = folder.attempt(0, 1)
    attempt.path.mkdir(parents=True)
    attempt.events.mkdir(parents=True)
    return folder


def write_events(attempt: AttemptFolder, *events: dict[str, object]) -> None:
    start = {"kind": "run_start", "epoch": 0}
    attempt.rank_events(0).write_text("".join(json.dumps({"wall_s": 1.0, **each}) + "\n" for each in (start, *events)))


def job(state: str) -> dict[int, QueueState]:
    return {0: QueueState("7_0", state, "n1", "Resources" if state == "PENDING" else "")}


JOB = Job(0, 0, (Rank(0, "n1", 0, (0,), None),))


def begun(path: Path) -> RunFolder:
    """A run whose member has an attempt, and no word of it."""
    folder = RunFolder(path)
    folder.attempt(0, 1).path.mkdir(parents=True)
    return folder


FAILED = {"kind": "failed", "error": "ValueError: no"}


@pytest.mark.parametrize(
    ("queue", "events", "shown", "status"),
    [
        (job("RUNNING"), [], "running", "training"),
        (job("COMPLETING"), [], "running", "training"),
        (job("PENDING"), [], "queued", "queued"),
        (job("CANCELLED"), [], "stopped", "stopped"),
        (job("NODE_FAIL"), [], "stopped", "stopped"),
        ({}, [], "stopped", "stopped"),  # Slurm has forgotten it
        (None, [], "running", "training"),  # Slurm is unreachable: its files say no more
        (job("RUNNING"), [FAILED], "failed", "failed"),
        (None, [FAILED], "failed", "failed"),
        (job("CANCELLED"), [FAILED], "stopped", "stopped"),
    ],
)
def test_show_and_status_agree_on_a_member_whose_launcher_is_gone(
    staged: RunFolder, queue: dict[int, QueueState] | None, events: list[dict[str, object]], shown: str, status: str
) -> None:
    write_events(staged.attempt(0, 1), *events)
    (result,) = build_result(staged, QueueAnswer(queue)).members
    (progress,) = read_progress(staged, queue)
    assert (result.state, progress.state) == (shown, status)
    assert (result.reason is None) == (shown in ("running", "queued"))


@pytest.mark.parametrize(
    ("record", "state", "reason"),
    [
        ({"state": "failed", "reason": "rank 0 failed"}, "failed", "rank 0 failed"),
        ({"state": "stopped", "reason": "stopped with the run"}, "stopped", "stopped with the run"),
        ({"state": "finished", "reason": None}, "failed", "ended without a completion record"),
    ],
)
def test_a_recorded_end_counts_whatever_became_of_the_job(
    tmp_path: Path, record: dict[str, str | None], state: MemberState, reason: str
) -> None:
    folder = begun(tmp_path)
    write_json(folder.attempt(0, 1).exit, record)
    for queue in (None, {}, job("CANCELLED"), job("RUNNING")):
        assert member_status(folder, JOB, RunActivity(False, queue)) == MemberStatus(state, reason, 1, record)


def test_without_a_scheduler_a_member_goes_on_as_long_as_its_launcher_lives(tmp_path: Path) -> None:
    assert member_status(RunFolder(tmp_path), JOB, RunActivity(False, {})) == MemberStatus("waiting")
    folder = begun(tmp_path)
    assert member_status(folder, JOB, RunActivity(True, {})) == MemberStatus("running", None, 1)
    killed = "the launcher was killed while this member was training"
    assert member_status(folder, JOB, RunActivity(False, {})) == MemberStatus("stopped", killed, 1)
    folder.attempt(0, 1).done.touch()
    assert member_status(folder, JOB, RunActivity(False, {})) == MemberStatus("finished", None, 1)


@pytest.mark.parametrize(
    ("state", "is_missing", "may_be_retried"),
    [("finished", False, False), ("failed", True, True), ("stopped", True, False)],
)
def test_resume_trains_all_that_did_not_finish_and_the_launcher_tries_failed_ones_again(
    tmp_path: Path, state: End, is_missing: bool, may_be_retried: bool
) -> None:
    folder = begun(tmp_path)
    if state == "finished":
        folder.attempt(0, 1).done.touch()
    write_json(folder.attempt(0, 1).exit, {"state": state, "reason": "a reason"})
    status = recorded_status(folder, 0, 1)
    assert status is not None
    assert (status.state, status.is_missing, status.may_be_retried) == (state, is_missing, may_be_retried)


def test_a_damaged_record_of_the_end_is_a_failure_whose_reason_names_the_file(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    folder.attempt(0, 1).exit.write_text("{")
    status = recorded_status(folder, 0, 1)
    assert status is not None
    assert (status.state, status.exit) == ("failed", None)
    assert str(status.reason).startswith("how it ended is unknown: jobs/0000/attempt-1/exit.json cannot be read: ")


def test_what_happens_after_the_completion_record_fails_no_member(tmp_path: Path) -> None:
    attempt = begun(tmp_path).attempt(0, 1)
    assert (end_of(attempt, was_stopped=False), end_of(attempt, was_stopped=True)) == ("failed", "stopped")
    attempt.done.touch()
    assert (end_of(attempt, was_stopped=False), end_of(attempt, was_stopped=True)) == ("finished", "finished")
