"""A study as a user runs it: files, gaps, kills, a full disk, resume."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.run_events import events_of
from tests.small_disk import fill, small_disk_on
from tests.waiting import wait_until
from tests.warm import WarmProcess

# Two points × two rounds of one worker with one thread: a second each.
PROBE = ["study", "threads", "--threads", "1", "--batch", "8,16", "--repeats", "2"]
SHORT = ["--set", "train.steps=30", "--set", "data.num_train=200", "--set", "measure.usage_seconds=0"]
SLOW = ["--set", "train.steps=120", "--set", "data.num_train=200", "--set", "launch.checkpoint_epochs=0"]


def study_of(folder: Path) -> Path:
    (found,) = (folder / "runs" / "studies").iterdir()
    return found


def record_of(study: Path) -> Any:
    return json.loads((study / "study.json").read_text())


def rows_of(study: Path) -> Any:
    return json.loads((study / "table.json").read_text())["rows"]


def results_in(folder: Path) -> dict[str, int]:
    """The runs that have a Result, and when it was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/result.json")}


def in_background(folder: Path, *arguments: str) -> WarmProcess:
    return WarmProcess([*arguments], folder, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def test_a_study_leaves_table_figures_and_page_and_its_runs_name_it(warm_trainmark: Command, tmp_path: Path) -> None:
    done = warm_trainmark(*PROBE, *SHORT)
    assert done.returncode == 0, done.stderr
    study = study_of(tmp_path)
    names = {path.name for path in study.iterdir()}
    assert {"study.json", "site.toml", "table.csv", "table.json", "report.html"} <= names
    assert {"threads-interop-1.svg", "threads-interop-1.pdf"} <= names
    assert [(row["batch"], row["n"]) for row in rows_of(study)] == [(8, 2), (16, 2)]
    assert all(row["throughput_samples_per_s"] > 0 and row["efficiency"] == 1 for row in rows_of(study))
    for run in record_of(study)["runs"]:
        result = json.loads((tmp_path / "runs" / run["run_id"] / "result.json").read_text())
        mark = result["provenance"]["study"]
        assert (mark["study_id"], mark["round"]) == (study.name, run["round"])
        # The rounds have seeds of their own, the same for all points.
        assert result["config"]["seed"] == run["round"]
    assert "run 4 of 4, round 2 of 2" in done.stderr and "left, about" in done.stderr
    assert "2 points × 2 repeats = 4 runs" in done.stderr
    shown = warm_trainmark("study", "show", "latest")
    assert shown.returncode == 0 and "best batch with 1 thread" in shown.stdout
    assert warm_trainmark("results", "--json").returncode == 0


def test_a_dry_run_writes_nothing_and_lists_points_and_node_hours(warm_trainmark: Command, tmp_path: Path) -> None:
    done = warm_trainmark(*PROBE, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.startswith("threads: 2 points × 2 repeats = 4 runs; ") and "node-hours" in done.stdout
    assert "threads=1 interop=1 batch=16" in done.stdout
    as_json = json.loads(warm_trainmark(*PROBE, "--dry-run", "--json").stdout)
    assert len(as_json["runs"]) == 4
    twice = warm_trainmark("study", "threads", "--threads", "1", "--batch", "8", "--batch", "16", "--dry-run").stdout
    assert "batch=8" in twice and "batch=16" in twice
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["thread"], "Did you mean 'threads'?"),
        (["threads", "--batch", "8,x"], "--batch takes a whole number or a range, but got 'x'"),
        (["threads", "--set", "train.batch_size=4"], "Choose its values with --batch"),
        (["threads", "--threads", "4096"], "No point of the study threads can run"),
        (["threads", "--repeats", "0"], "--repeats"),
        (["show", "x"], "No studies in"),
        (["threads", "--size", "huge"], "huge"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    warm_trainmark: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = warm_trainmark("study", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_study_is_resumed_and_no_finished_run_is_run_again(warm_trainmark: Command, tmp_path: Path) -> None:
    process = in_background(tmp_path, *PROBE, *SHORT, "--set", "train.steps=150")
    wait_until(lambda: len(results_in(tmp_path)) == 1)
    study = study_of(tmp_path)
    second = tmp_path / "runs" / record_of(study)["runs"][1]["run_id"]
    wait_until(second.exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = results_in(tmp_path)
    done = warm_trainmark("study", "resume", "latest")
    assert done.returncode == 0, done.stderr
    after = results_in(tmp_path)
    assert len(after) == 4
    assert all(after[run] == written for run, written in finished.items())
    assert [row["n"] for row in rows_of(study)] == [2, 2]
    # Analysing the same Results once more, elsewhere, gives the same files byte by byte.
    shutil.copytree(tmp_path / "runs", tmp_path / "copy")
    again = warm_trainmark("study", "report", study.name, "--runs-dir", "copy")
    assert again.returncode == 0, again.stderr
    for name in ("table.csv", "table.json", "threads-interop-1.svg", "threads-interop-1.pdf"):
        assert (tmp_path / "copy" / "studies" / study.name / name).read_bytes() == (study / name).read_bytes(), name


def test_a_killed_rank_costs_its_run_the_study_goes_on_and_resume_tries_it_again(
    warm_trainmark: Command, tmp_path: Path
) -> None:
    process = in_background(tmp_path, *PROBE, *SLOW)
    wait_until(lambda: (tmp_path / "runs" / "studies").exists())
    wait_until(lambda: any((tmp_path / "runs" / "studies").glob("*/study.json")))
    study = study_of(tmp_path)
    first = tmp_path / "runs" / record_of(study)["runs"][0]["run_id"]
    wait_until(lambda: any(e["kind"] == "epoch_start" for e in _events(first)))
    os.kill(next(int(e["pid"]) for e in _events(first) if e["kind"] == "rank_started"), signal.SIGKILL)
    _, errors = process.communicate()
    assert process.wait() == 1
    assert "1 of 4 runs have no Result" in errors and "trainmark study resume" in errors
    assert sorted(row["n"] for row in rows_of(study)) == [1, 2]
    assert "1 of 2 runs missing" in next(row["note"] for row in rows_of(study) if row["n"] == 1)
    kept = results_in(tmp_path)
    done = warm_trainmark("study", "resume", study.name)
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in rows_of(study)] == [2, 2]
    assert [run for run, written in results_in(tmp_path).items() if kept[run] != written] == [first.name]


def test_a_point_of_two_members_that_lost_one_is_trained_afresh_so_that_they_train_side_by_side(
    warm_trainmark: Command, tmp_path: Path
) -> None:
    steps = 300
    two = ["study", "hybrid", "--processes", "2", "--mode", "members", "--batch", "16", "--repeats", "1"]
    process = in_background(tmp_path, *two, *SHORT, "--set", f"train.steps={steps}")
    wait_until(lambda: any((tmp_path / "runs" / "studies").glob("*/study.json")))
    study = study_of(tmp_path)
    first = tmp_path / "runs" / record_of(study)["runs"][0]["run_id"]
    wait_until(lambda: any(e["kind"] == "epoch_start" for e in _events(first, 1)))
    os.kill(next(int(e["pid"]) for e in _events(first, 1) if e["kind"] == "rank_started"), signal.SIGKILL)
    _, errors = process.communicate()
    assert process.wait() == 1 and "1 of 1 runs have no Result" in errors
    before = (first / "result.json").read_bytes()
    done = warm_trainmark("study", "resume", study.name)
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in rows_of(study)] == [1]
    result = json.loads((first / "result.json").read_text())
    speed = result["metrics"]["throughput_samples_per_s"]["detail"]
    assert speed["members_at_a_time"] > 1.1  # 1 if trained one after the other; less than 2 on a busy machine
    assert [sum(pair) for pair in zip(speed["warmup_steps"], speed["steady_steps"], strict=True)] == [steps] * 2
    assert [(member["attempts"], member["restarted"]) for member in result["members"]] == [(1, False)] * 2
    # What was measured before is kept, and is no run of the list.
    assert (study / "interrupted" / f"{first.name}-1" / "result.json").read_bytes() == before
    assert len(json.loads(warm_trainmark("results", "--json").stdout)) == 1


def _events(folder: Path, member: int = 0) -> list[dict[str, Any]]:
    try:
        return events_of(folder, member)
    except (FileNotFoundError, json.JSONDecodeError):
        return []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_on(tmp_path / "runs", mebibytes=12) as disk:
        yield disk


def test_a_full_disk_stops_the_study_and_with_space_it_is_finished(
    warm_trainmark: Command, tmp_path: Path, small_disk: Path
) -> None:
    process = in_background(tmp_path, *PROBE, *SHORT, "--set", "train.steps=150")
    wait_until(lambda: len(results_in(tmp_path)) == 1)
    filler = fill(small_disk)
    _, errors = process.communicate()
    assert process.wait() == 1, errors
    assert "space" in errors.splitlines()[-1]
    kept = {run: written for run, written in results_in(tmp_path).items() if _is_complete(tmp_path, run)}
    filler.unlink()
    done = warm_trainmark("study", "resume", "latest")
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in rows_of(study_of(tmp_path))] == [2, 2]
    after = results_in(tmp_path)
    assert len(after) == 4 and len(kept) >= 1
    assert all(after[run] == written for run, written in kept.items())


def _is_complete(folder: Path, run: str) -> bool:
    return bool(json.loads((folder / "runs" / run / "result.json").read_text())["state"] == "complete")


def test_two_processes_do_not_work_on_one_study(warm_trainmark: Command, tmp_path: Path) -> None:
    process = in_background(tmp_path, *PROBE, *SLOW, "--set", "train.steps=100000")
    wait_until(lambda: any((tmp_path / "runs" / "studies").glob("*/claims/*.json")))
    done = warm_trainmark("study", "resume", "latest")
    assert (done.returncode, "is being worked on by process" in done.stderr) == (1, True), done.stderr
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.wait() == 130
    assert "trainmark study resume" in errors.splitlines()[-1]
