"""`trainmark show` and `trainmark status` say the same of a member, by its files, Slurm and its launcher."""

import json
from pathlib import Path

import pytest

from trainmark.collect.build import build_result
from trainmark.collect.member_state import Outlook, member_state
from trainmark.collect.progress import read_progress
from trainmark.pipeline import write_run
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.run_folder import AttemptFolder, Places, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.status import QueueAnswer, QueueState

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
    tmp_path: Path, record: dict[str, str | None], state: str, reason: str
) -> None:
    attempt = AttemptFolder(tmp_path, tmp_path)
    for queue in (None, {}, job("CANCELLED"), job("RUNNING")):
        assert member_state(0, attempt, 1, record, None, Outlook(False, queue)) == (state, reason)


def test_without_a_scheduler_a_member_goes_on_as_long_as_its_launcher_lives(tmp_path: Path) -> None:
    attempt = AttemptFolder(tmp_path, tmp_path)
    assert member_state(0, attempt, 0, None, None, Outlook(False, {})) == ("waiting", None)
    assert member_state(0, attempt, 1, None, None, Outlook(True, {})) == ("running", None)
    killed = "the launcher was killed while this member trained"
    assert member_state(0, attempt, 1, None, None, Outlook(False, {})) == ("stopped", killed)
    attempt.done.touch()
    assert member_state(0, attempt, 1, None, None, Outlook(False, {})) == ("finished", None)
