"""Resuming a study without training: which runs are trained afresh, and which are not tried again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.test_study_conduct import Machine, conducted, silent, study_of
from trainmark import pipeline
from trainmark.spec.errors import RunFailedError
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import MemberProgress
from trainmark.studies.conduct import _must_train_afresh, conduct
from trainmark.studies.publish import fail_unless_whole
from trainmark.studies.record import read_study
from trainmark.studies.stored_outcomes import outcomes_of


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("states", "is_afresh"),
    [
        (["finished", "failed"], True),
        (["finished", "stopped"], True),
        (["stopped", "waiting"], True),
        (["finished", "finished"], False),  # killed before its Result was stored
        (["finished", "queued"], False),  # jobs of a scheduler are adopted
        (["failed", "training"], False),
        (["waiting", "waiting"], False),
        (["stopped"], True),
        (["failed"], True),
        (["finished"], False),
        (["queued"], False),
    ],
)
def test_an_interrupted_run_is_trained_afresh_and_its_folder_set_aside_unless_jobs_are_under_way(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, states: list[Any], *, is_afresh: bool
) -> None:
    folder = study_of(tmp_path, repeats=1)
    run = folder.run(read_study(folder).runs[0].run_id)
    run.plan.parent.mkdir(parents=True)
    run.plan.write_text("of the first attempt")
    for member, state in enumerate(states):
        if state != "waiting":
            run.attempt(member, 1).path.mkdir(parents=True)
    plan = SimpleNamespace(jobs=[SimpleNamespace(member=member) for member in range(len(states))])
    progress = [MemberProgress(member, state) for member, state in enumerate(states)]
    reopened: list[RunFolder] = []
    monkeypatch.setattr("trainmark.studies.conduct.read_config_and_plan", lambda folder: (None, plan))
    monkeypatch.setattr(pipeline, "status", lambda folder: (progress, None))
    monkeypatch.setattr(pipeline, "reopen", lambda folder, making: reopened.append(folder) or machine.known(folder))
    assert conducted(folder) == [(1, None, [])]
    assert reopened == ([] if is_afresh else [run])
    aside = folder.interrupted(run.run_id, 1)
    assert aside.exists() == is_afresh
    if is_afresh:
        assert (aside / "plan.json").read_text() == "of the first attempt" and run.result.exists()


def test_a_single_member_with_a_checkpoint_goes_on_from_there(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = study_of(tmp_path, repeats=1)
    run = folder.run(read_study(folder).runs[0].run_id)
    checkpoint = run.attempt(0, 1).checkpoint(5)
    checkpoint.path.mkdir(parents=True)
    run.plan.write_text("{}")
    plan = SimpleNamespace(jobs=[SimpleNamespace(member=0)])
    monkeypatch.setattr("trainmark.studies.conduct.read_config_and_plan", lambda folder: (None, plan))
    monkeypatch.setattr(pipeline, "status", lambda folder: ([MemberProgress(0, "stopped")], None))
    assert _must_train_afresh(run)  # not complete
    checkpoint.complete.write_text("{}")
    assert not _must_train_afresh(run)


@pytest.mark.parametrize(
    "found_out",
    ["rank 0 failed: out of memory: could not allocate 9 GiB", "rank 0 failed: The loss became inf at step 3"],
)
def test_what_a_failed_run_found_out_is_an_answer_which_is_not_tried_again(
    tmp_path: Path, machine: Machine, found_out: str
) -> None:
    folder = study_of(tmp_path, repeats=2)
    machine.followed = {2: found_out}
    assert conducted(folder)[1] == (2, f"failed: {found_out}", [])
    assert conducted(folder) == []
    fail_unless_whole(folder, [outcomes_of(folder, read_study(folder))])


def test_a_killed_rank_may_have_run_out_of_memory_and_is_tried_again(tmp_path: Path, machine: Machine) -> None:
    folder = study_of(tmp_path, repeats=1)
    machine.followed = {1: "rank 0 killed by signal 9 (SIGKILL); probably out of memory, or killed by a user"}
    with pytest.raises(RunFailedError, match="1 of 1 runs have no Result"):
        fail_unless_whole(folder, [conduct(folder, silent(lambda record, each: None))])
