"""An engine that is not torch goes the whole way: run, kill, resume, show and report."""

import json
import signal
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command
from tests.local_runs import LocalRun
from tests.run_events import events_of, losses_of

ENGINE = ("--set", "train.engine=tests.numpy_engine:OFFER", "--set", "model=tests.numpy_engine:MLP")
SMALL = ("--set", "data.num_train=400", "--set", "data.num_eval=100", "--set", "measure.ceiling_seconds=0.01")


def test_a_run_in_numpy_is_trained_scored_shown_and_reported(trainmark: Command, tmp_path: Path) -> None:
    settings = (*ENGINE, *SMALL, "--members", "2", "--workers", "1", "--set", "train.epochs=4")
    done = trainmark("run", *settings, "--json", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["state"], result["config"]["train"]["engine"]) == ("complete", "tests.numpy_engine:OFFER")
    assert result["engine"]["arithmetic"] == "fp32 in numpy" and result["engine"]["gradient"] == "written out"
    # Ten classes: a guess finds one in ten, two layers find more.
    assert result["metrics"]["quality_ensemble"]["value"] > 0.2
    # 3072 × 32 and 32 × 10 multiply-adds; backward once more for the weights, and for the input of the second layer.
    forward = 2 * (3072 * 32 + 32 * 10)
    assert result["metrics"]["flops"]["detail"]["training_flop_per_sample"]["exact"] == 2 * forward + 2 * 32 * 10
    # On a busy machine the share is unavailable; but the ceiling was measured by this engine, before and after.
    measured = [event for event in events_of(tmp_path / "runs" / result["run_id"], 0) if event["kind"] == "ceiling"]
    assert measured[0]["phase"] == "before" and measured[0]["flops"] > 1e8
    assert result["metrics"]["data_wait_share"]["value"] < 1
    shown = trainmark("show", "latest", PYTHONPATH=str(ROOT)).stdout
    assert "tests.numpy_engine:MLP in fp32" in shown and "VFLOPS (Eq. 7)" in shown
    page = tmp_path / "page.html"
    reported = trainmark("report", "latest", "-o", str(page), PYTHONPATH=str(ROOT))
    assert reported.returncode == 0, reported.stderr
    assert "fp32 in numpy" in page.read_text() and "<svg" in page.read_text()


def test_a_run_in_numpy_that_was_killed_is_resumed_bit_identically(
    warm_trainmark: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    settings = (*ENGINE, *SMALL, "--members", "1", "--workers", "1", "--set", "measure.ceiling=false")
    settings += ("--set", "train.epochs=80", "--set", "launch.checkpoint_epochs=10", "--set", "launch.threads=1")
    (tmp_path / "killed").mkdir()
    run = LocalRun(tmp_path / "killed", *settings, warm=True)
    run.wait_for("checkpoint", member=0)
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    done = warm_trainmark("resume", str(run.folder), "--json", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (member,) = result["members"]
    assert (result["state"], member["attempts"], member["restarted"]) == ("complete", 2, True)
    whole = warm_trainmark("run", *settings, "--json", PYTHONPATH=str(ROOT))
    whole_folder = tmp_path / "runs" / json.loads(whole.stdout)["run_id"]
    expected, resumed = losses_of(whole_folder), losses_of(run.folder, attempt=2)
    assert 0 < len(resumed) < len(expected)
    assert resumed == expected[-len(resumed) :]
