"""Killed ranks, a killed launcher, Ctrl-C, a full disk: each leaves a clear message and a folder that can be used."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.local_runs import MEDIUM, LocalRun, is_running
from tests.run_events import events_of, losses_of
from tests.small_disk import fill, small_disk_on
from tests.two_cores import on_two_cores
from tests.waiting import wait_until

Start = Callable[..., LocalRun]


def shown(warm_trainmark: Command, folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(warm_trainmark("show", str(folder), "--json").stdout)
    return result


def states(result: dict[str, Any]) -> list[str]:
    return [member["state"] for member in result["members"]]


def resumed(warm_trainmark: Command, folder: Path) -> dict[str, Any]:
    done = warm_trainmark("resume", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["state"], result["damage"]) == ("complete", [])
    return result


def test_a_killed_rank_fails_its_member_alone(start_here: Start, warm_trainmark: Command) -> None:
    run = start_here("--members", "2")
    run.wait_for("epoch_stop", member=1)
    os.kill(run.pid(member=1), signal.SIGKILL)
    code, errors = run.end()
    assert code == 1
    assert "1 of 2 members finished; member 1 failed: rank 0 killed by signal 9 (SIGKILL)" in errors
    assert f"trainmark resume {run.folder}" in errors
    result = shown(warm_trainmark, run.folder)
    assert (result["state"], states(result)) == ("partial", ["finished", "failed"])
    assert result["metrics"]["quality_ensemble"]["detail"] == {"members": 1, "of_members": 2}
    again = resumed(warm_trainmark, run.folder)
    assert [member["attempts"] for member in again["members"]] == [1, 2]
    assert again["metrics"]["time_to_train_all_s"]["status"] == "unavailable"
    assert again["metrics"]["quality_ensemble"]["detail"] == {"members": 2, "of_members": 2}


def test_a_killed_worker_ends_its_peers_within_seconds(start_here: Start) -> None:
    run = start_here("--members", "1", "--workers", "2")
    run.wait_for("epoch_stop", rank=1)
    os.kill(run.pid(0, rank=1), signal.SIGKILL)
    killed = time.monotonic()
    code, errors = run.end()
    assert time.monotonic() - killed < 15
    assert code == 1
    assert "member 0 failed: rank 1 killed by signal 9 (SIGKILL)" in errors


def test_a_killed_launcher_leaves_no_orphans_and_a_folder_to_resume(start_here: Start, warm_trainmark: Command) -> None:
    run = start_here("--members", "3", "--set", "data.num_train=400", warm=False)
    # Lanes differ in speed under load: member 2 waits, so that it cannot finish before member 1.
    run.wait_for("checkpoint", member=2)
    os.kill(run.pid(2), signal.SIGSTOP)
    run.wait_for_finished(0, 1)
    pids = [run.pid(member) for member in range(3)]
    os.kill(run.process.pid, signal.SIGKILL)
    run.end()
    wait_until(lambda: not any(is_running(pid) for pid in pids), seconds=10)
    result = shown(warm_trainmark, run.folder)
    assert result["state"] == "unfinished"
    assert states(result) == ["finished", "finished", "stopped"]
    assert result["members"][2]["reason"] == "the launcher was killed while this member was training"
    assert result["members"][0]["quality"] is not None
    assert "not running" in warm_trainmark("status", str(run.folder)).stdout
    listed = json.loads(warm_trainmark("results", "--json").stdout)
    assert [(row["run_id"], row["state"]) for row in listed] == [(run.folder.name, "unfinished")]
    assert resumed(warm_trainmark, run.folder)["members"][2]["attempts"] == 2


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_within_seconds_and_resumes_to_the_same_losses(
    start_here: Start, warm_trainmark: Command, signum: signal.Signals
) -> None:
    run = start_here("--members", "2")
    run.wait_for("checkpoint", member=0)
    pids = [run.pid(member) for member in range(2)]
    run.process.send_signal(signum)
    stopped = time.monotonic()
    code, errors = run.end()
    assert time.monotonic() - stopped < 10
    assert code == 130
    assert f"Stopped by {signum.name}. Finished members are kept; continue with: trainmark resume" in errors
    assert "Traceback" not in errors
    assert not any(is_running(pid) for pid in pids)
    until_then = shown(warm_trainmark, run.folder)
    assert states(until_then) == ["stopped", "stopped"]
    assert until_then["metrics"]["throughput_samples_per_s"]["value"] > 0
    assert until_then["metrics"]["flops"]["detail"]["so_far"]["of_members"] == 2
    assert until_then["metrics"]["vflops"]["reason"] == "the run is not over"
    assert "so far, " in warm_trainmark("show", str(run.folder)).stdout
    result = resumed(warm_trainmark, run.folder)
    assert result["members"][0]["restarted"]
    text = warm_trainmark("show", str(run.folder)).stdout
    assert "finished, restarted" in text and "member 0 was restarted from a checkpoint: its figures cover only" in text

    disturbed = run.folder
    assert start_here("--members", "2").end()[0] == 0
    undisturbed = next(path for path in run.runs.iterdir() if path != disturbed)
    for member in range(2):
        again, straight = losses_of(disturbed, member, attempt=2), losses_of(undisturbed, member)
        assert again == straight[len(straight) - len(again) :]
    whole = shown(warm_trainmark, undisturbed)
    assert result["metrics"]["quality_ensemble"]["value"] == whole["metrics"]["quality_ensemble"]["value"]


def test_two_workers_killed_within_an_epoch_resume_to_the_same_losses(
    start_here: Start, warm_trainmark: Command
) -> None:
    together = ("--members", "1", "--workers", "2", "--set", "launch.checkpoint_steps=7")
    together += ("--set", "train.communication_precision=int8")  # errors of compression must survive as well
    run = start_here(*together)
    run.wait_for("checkpoint")
    os.kill(run.pid(0, rank=1), signal.SIGKILL)
    assert run.end()[0] == 1
    assert resumed(warm_trainmark, run.folder)["members"][0]["restarted"]
    (after,) = [event for event in events_of(run.folder, attempt=2) if event["kind"] == "resumed"]
    assert after["step"] % 7 == 0

    disturbed = run.folder
    assert start_here(*together).end()[0] == 0
    undisturbed = next(path for path in run.runs.iterdir() if path != disturbed)
    for rank in (0, 1):
        straight = losses_of(undisturbed, rank=rank)
        assert losses_of(disturbed, attempt=2, rank=rank) == straight[after["step"] :]


def test_a_reader_of_the_progress_that_goes_away_does_not_end_the_run(tmp_path: Path) -> None:
    command = f"{sys.executable} -m trainmark run {' '.join(MEDIUM)} --members 1 2>&1 >result.txt | head -1"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, preexec_fn=on_two_cores)
    (folder,) = (tmp_path / "runs").iterdir()
    wait_until(lambda: (folder / "result.json").exists())
    assert json.loads((folder / "result.json").read_text())["state"] == "complete"


def test_a_run_under_nohup_outlives_its_terminal(start_here: Start, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, and children inherit it
    try:
        run = start_here("--members", "1", "--set", "train.epochs=2", warm=False)
    finally:
        signal.signal(signal.SIGHUP, before)
    run.wait_for("run_start")
    run.process.send_signal(signal.SIGHUP)
    assert run.end()[0] == 0


def test_a_run_is_worked_on_by_one_launcher_at_a_time(start_here: Start, warm_trainmark: Command) -> None:
    run = start_here("--members", "1", "--set", "train.epochs=1000")
    run.wait_for("run_start")
    done = warm_trainmark("resume", str(run.folder))
    assert done.returncode == 1
    assert f"is being worked on by process {run.process.pid}" in done.stderr
    status = json.loads(warm_trainmark("status", str(run.folder), "--json").stdout)
    assert status["alive"]
    assert status["members"][0]["state"] == "training"
    run.process.send_signal(signal.SIGTERM)
    assert run.end()[0] == 130


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB where the runs are stored."""
    with small_disk_on(tmp_path / "runs", mebibytes=12) as disk:
        yield disk


def test_a_full_disk_leaves_a_clear_message_and_the_finished_members(
    start_here: Start, warm_trainmark: Command, small_disk: Path
) -> None:
    run = start_here("--members", "4")
    # Lanes differ in speed under load: member 2 waits, so that it cannot finish before member 3 has begun.
    run.wait_for("checkpoint", member=2)
    os.kill(run.pid(2), signal.SIGSTOP)
    run.wait_for_finished(0, 1)
    run.wait_for("rank_started", member=3)
    filler = fill(small_disk)
    os.kill(run.pid(2), signal.SIGCONT)
    code, errors = run.end()
    assert code == 1
    assert "2 of 4 members finished; member 2 failed: rank 0 no space left where the run is stored" in errors
    assert "--runs-dir" in errors
    assert (run.folder / "result.json").exists()
    result = shown(warm_trainmark, run.folder)
    assert (result["state"], states(result)) == ("partial", ["finished", "finished", "failed", "failed"])
    assert result["members"][1]["quality"] is not None
    assert fill(small_disk) == filler  # the reserves that were given up are gone as well
    before = sorted(run.folder.rglob("*"))
    again = warm_trainmark("resume", str(run.folder))
    assert again.returncode == 1
    assert again.stderr == (
        f"trainmark: No space left in {run.folder}. Free some, then continue with: trainmark resume {run.folder}\n"
    )
    assert sorted(run.folder.rglob("*")) == before
    filler.unlink()
    resumed(warm_trainmark, run.folder)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    warm_trainmark: Command, small_disk: Path
) -> None:
    fill(small_disk)
    done = warm_trainmark("run", *MEDIUM)
    assert done.returncode == 1
    assert "free, but this run writes about" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
