"""A run's folder that was copied or moved: its jobs are written for its present place, others' jobs are left alone."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from trainmark.launch.follow import RunJobs, follow_jobs
from trainmark.launch.slurm.launcher import SlurmLauncher
from trainmark.launch.slurm.queue import QueuedJob
from trainmark.launch.slurm.submission import Submission, Task, read_submissions, write_submission
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord, read_job_record, write_jobs
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueState

SITE = Site.model_validate({"name": "alpha", "groups": [{"prefix": "cn", "count": 2, "slots": [{"cores": "0-3"}]}]})


def records(folder: Path, members: int = 1) -> list[JobRecord]:
    """The jobs of a run in that folder."""
    settings = (f"ensemble.members={members}", "ensemble.workers=1", "launch.launcher=slurm")
    config, plan = make_plan(resolve_config([parse_setting(text) for text in settings]), SITE)
    return [JobRecord(RunFolder(folder), config, SITE, job) for job in plan.jobs]


def test_submissions_that_were_copied_along_with_a_folder_belong_to_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (original,) = records(tmp_path / "original")
    (copy,) = records(tmp_path / "copy")
    original.new_attempt()
    submission = Submission(1, (Task(0, 1),), is_array=True, job_id="7", token="0a1b")
    write_submission(original.folder, submission)
    shutil.copytree(original.folder.path, copy.folder.path)
    running = QueuedJob(QueueState("7_0", "RUNNING", "n1"), submission.comment)
    monkeypatch.setattr("trainmark.launch.slurm.launcher.read_queue", lambda *names: {"7_0": running})
    assert SlurmLauncher().adopt([original]) == [original]
    assert SlurmLauncher().adopt([copy]) == []
    assert SlurmLauncher().queue(copy.folder) == {}
    assert copy.folder.num_attempts(0) == 1  # what was measured there stays, and a new attempt follows
    moved = RunFolder(tmp_path / "moved")
    original.folder.path.rename(moved.path)  # its jobs stay its own
    assert read_submissions(moved) == [submission]


def test_a_submission_of_a_copy_has_another_comment_than_that_of_the_original() -> None:
    one, other = (Submission(2, (), is_array=True, job_id=None, token=token) for token in ("0a", "0b"))
    assert (one.comment, other.comment) == ("submission-2-0a", "submission-2-0b")


def test_a_submission_of_an_earlier_version_is_still_known(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    record = {"job_id": "9", "is_array": False, "gave_up": False, "tasks": [{"member": 0, "attempt": 1}]}
    write_json(folder.submission_record(1), record)
    (found,) = read_submissions(folder)
    assert found == Submission(1, (Task(0, 1),), is_array=False, job_id="9")
    assert found.comment == "submission-1"


def test_a_resumed_folder_gets_scripts_for_its_present_place_but_not_for_jobs_under_way(tmp_path: Path) -> None:
    there = records(tmp_path / "there", 2)
    here = records(tmp_path / "here", 2)
    scripts_there = iter([SlurmLauncher().script(record) for record in there])
    write_jobs(here, lambda record: next(scripts_there))
    launcher = Mock(wraps=SlurmLauncher(), poll_s=0, broken={}, outlives_us=True, one_run_at_a_time=False)
    launcher.adopt = lambda waiting: waiting[:1]
    launcher.submit = lambda waiting: waiting
    launcher.num_running, launcher.take_ended = lambda folder: 0, lambda folder: []
    assert list(follow_jobs(launcher, [RunJobs(launcher, here[0].folder, here, Mock())], Mock())) != []
    scripts = [record.folder.job_script(record.job.member).read_text() for record in here]
    assert [str(tmp_path / "here") in script for script in scripts] == [False, True]
    assert [str(tmp_path / "there") in script for script in scripts] == [True, False]
    assert read_job_record(here[1].folder.job_record(1)) == here[1]
