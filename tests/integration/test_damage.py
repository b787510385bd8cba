"""Files of a stored run that are missing, cut or garbled: a Result is made of what is left, and says what is not."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Command
from tests.waiting import TIMEOUT_S
from tests.warm import WarmProcess
from trainmark.collect.build import build_result
from trainmark.collect.progress import read_progress
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.stored_run import read_stored

EVENTS = "events/0001/attempt-1/rank-0.jsonl"
USAGE = "events/0001/attempt-1/usage-0.jsonl"
ATTEMPT = "jobs/0001/attempt-1"
OF_STEPS = ("throughput_samples_per_s", "step_time_s", "data_wait_share")
OF_EPOCHS = ("epoch_time_s", "flops", "flops_steady", "harness_overhead_share")
OF_EVENTS = (*OF_STEPS, *OF_EPOCHS, "peak_memory_bytes", "cpu_utilisation")  # a busy machine has no ceiling
OF_THE_END = ("time_to_train_all_s", "models_per_minute")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of two members, two epochs each, which tests copy before they damage it."""
    place = tmp_path_factory.mktemp("stored")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}
    process = WarmProcess(["run", *SMALL, "--members", "2", "--set", "train.epochs=2"], place, environment)
    try:
        _, errors = process.communicate(TIMEOUT_S)
    finally:
        process.kill()
    assert process.wait() == 0, errors
    (folder,) = (path for path in (place / "runs").iterdir() if (path / "plan.json").exists())
    return folder


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    """A copy of the run without its stored Result."""
    copy = tmp_path / "runs" / "20260101-damaged"
    shutil.copytree(stored, copy)
    (copy / "result.json").unlink()
    return copy


def built(run: Path) -> Result:
    return build_result(RunFolder(run))


def change(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


def place_of(lines: list[str], kind: str) -> int:
    return next(number for number, line in enumerate(lines) if f'"kind":"{kind}"' in line)


def replaced(kind: str, by: str) -> Callable[[list[str]], list[str]]:
    """The first line of a kind becomes another one."""

    def edit(lines: list[str]) -> list[str]:
        place = place_of(lines, kind)
        return [*lines[:place], by, *lines[place + 1 :]]

    return edit


def without_field(kind: str, field: str) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        place = place_of(lines, kind)
        event = json.loads(lines[place])
        del event[field]
        return [*lines[:place], json.dumps(event) + "\n", *lines[place + 1 :]]

    return edit


GARBLED: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "empty": (lambda lines: [], "lacks rank_started, run_start, run_stop, memory, data_ready, model_ready"),
    "its end cut off": (lambda lines: lines[: len(lines) // 2], "lacks run_stop, memory"),
    "its begin cut off": (lambda lines: lines[5:], "lacks rank_started"),
    "a line cut": (lambda lines: [*lines[:-4], lines[-4][:20], "\n", *lines[-3:]], "has 1 damaged line"),
    "a number": (replaced("steps", "5\n"), "has 1 damaged line"),
    "an empty object": (replaced("steps", "{}\n"), "has 1 damaged line"),
    "bytes of something else": (replaced("model_ready", "\x00\x01\n"), "has 1 damaged line"),
    "a wrong type": (replaced("epoch_stop", '{"kind":"epoch_stop","wall_s":"x"}\n'), "has 1 damaged line"),
    "a missing key": (without_field("epoch_stop", "epoch_s"), "has 1 damaged line"),
    "a missing key of the model": (without_field("model_ready", "conventions"), "has 1 damaged line"),
    "steps left out": (replaced("steps", ""), "lacks steps 0 to 5"),
    "all lines twice": (lambda lines: [*lines, *lines], "repeats steps from 0 on"),
    "the start of an epoch left out": (replaced("epoch_start", ""), "lacks the start or end of an epoch"),
}


@pytest.mark.parametrize("how", list(GARBLED))
def test_a_finished_member_whose_events_are_damaged_is_named_and_left_out(run: Path, how: str) -> None:
    whole = built(run)
    edit, problem = GARBLED[how]
    change(run / EVENTS, edit)
    result = built(run)
    (line,) = result.damage
    assert line.startswith(f"member 1 finished, but {EVENTS} {problem}")
    assert result.warnings[0] == line
    assert (result.state, [member.state for member in result.members]) == ("complete", ["finished", "finished"])
    for name in OF_EVENTS:
        metric = result.metrics[name]
        assert metric.value is not None, (name, metric.reason)
        assert metric.detail is not None
        assert metric.detail["left_out"] == "member 1, whose events are damaged", name
    for name in OF_STEPS:  # of one member now
        assert result.metrics[name].value == whole.members[0].metrics.get(name, result.metrics[name]).value
    for name in OF_THE_END:
        assert str(result.metrics[name].reason).startswith(f"the events of member 1 are damaged: {EVENTS} {problem}")
    for name in ("quality_ensemble", "quality_member_mean", "quality_out_of_bag"):
        assert result.metrics[name].value == whole.metrics[name].value, name  # predictions and records are whole
    assert (result.members[1].quality, result.members[1].epochs_done) == (whole.members[1].quality, 2)
    assert f"{EVENTS} {problem}" in str(result.members[1].reason)
    Result.model_validate_json(result.as_json())


def test_a_whole_run_has_no_damage(run: Path) -> None:
    result = built(run)
    assert result.damage == []
    assert not any("damaged" in warning or "could not be checked" in warning for warning in result.warnings)


def test_without_any_events_every_metric_of_events_says_which_file_is_missing(run: Path) -> None:
    for member in ("0000", "0001"):
        (run / "events" / member / "attempt-1" / "rank-0.jsonl").unlink()
    result = built(run)
    assert len(result.damage) == 2
    for name in (*OF_EVENTS, *OF_THE_END, "vflops"):
        reason = "the events of member 0 are damaged: events/0000/attempt-1/rank-0.jsonl is missing"
        assert result.metrics[name].reason == reason, name
    assert result.metrics["quality_ensemble"].value is not None
    assert all(metric.value is None for metric in result.members[0].metrics.values())


@pytest.mark.parametrize("content", [None, b"", b"no archive", b"half"], ids=["missing", "empty", "garbled", "cut"])
def test_without_a_members_predictions_the_ensemble_is_that_of_the_others(run: Path, content: bytes | None) -> None:
    path = run / ATTEMPT / "predictions.npz"
    data = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(data[: len(data) // 2] if content == b"half" else content)
    result = built(run)
    (line,) = result.damage
    assert line.startswith(f"member 1 finished, but {ATTEMPT}/predictions.npz ")
    assert "pickle" not in line
    ensemble = result.metrics["quality_ensemble"]
    assert ensemble.value == result.members[0].quality
    assert ensemble.detail == {
        "members": 1,
        "of_members": 2,
        "left_out": "member 1, whose predictions are damaged",
    }
    assert result.metrics["vflops"].detail is not None
    assert result.metrics["vflops"].detail["left_out"] == "member 1, whose predictions are damaged"
    assert result.metrics["flops"].detail is not None
    assert "left_out" not in result.metrics["flops"].detail


@pytest.mark.parametrize("content", ["", "5", "[]", "{}", '{"state": 7, "members": 7}', "{" * 9])
@pytest.mark.parametrize(
    "name", ["origin.json", "bootstrap/audit.json", f"{ATTEMPT}/exit.json", f"{ATTEMPT}/done.json"]
)
def test_a_record_that_is_garbled_costs_no_figure(run: Path, name: str, content: str) -> None:
    whole = built(run)
    (run / name).write_text(content)
    result = built(run)
    assert result.metrics == whole.metrics
    assert [name in line for line in result.damage] == [True]
    read_progress(RunFolder(run), {})


def test_records_that_are_missing_cost_no_figure(run: Path) -> None:
    whole = built(run)
    for name in ("origin.json", "bootstrap/audit.json", f"{ATTEMPT}/exit.json"):
        (run / name).unlink()
    result = built(run)
    assert result.damage == [
        "origin.json is missing: machine, software or start time of the run are unknown",
        "bootstrap/audit.json is missing: the bootstraps could not be checked",
    ]
    assert result.metrics == whole.metrics


def test_an_end_that_cannot_be_read_is_a_failure_for_that_reason(run: Path) -> None:
    (run / ATTEMPT / "done.json").unlink()
    (run / ATTEMPT / "exit.json").write_text("{}")
    member = built(run).members[1]
    assert (member.state, member.reason) == ("failed", f"how it ended is unknown: {ATTEMPT}/exit.json holds no state")
    assert read_progress(RunFolder(run), {})[1].state == "failed"


def test_lines_torn_by_a_crash_are_counted_and_told(run: Path) -> None:
    for name in ("done.json", "exit.json"):
        (run / ATTEMPT / name).unlink()
    change(run / EVENTS, lambda lines: [*lines[:-4], "{torn\n", lines[-4][:30]])
    change(run / USAGE, lambda lines: [lines[0], "5\n", *lines[1:]])
    result = built(run)
    assert result.damage == []  # of no finished member
    assert any(
        re.fullmatch(rf"{EVENTS} has 2 damaged lines \(number \d+, \d+\): .*left out", w) for w in result.warnings
    )
    assert f"{USAGE} has 1 damaged line (number 2): damaged lines are left out" in result.warnings


@pytest.mark.parametrize("name", ["config.toml", "plan.json", "site.toml"])
def test_a_damaged_record_of_choices_is_named_and_taken_from_the_origin(run: Path, name: str) -> None:
    (run / name).write_text("{")
    result = built(run)
    assert result.state == "complete"
    assert any(
        warning.startswith(f"changed since the run started: {name} cannot be read: ") for warning in result.warnings
    )


@pytest.mark.parametrize("name", ["config.toml", "plan.json", "site.toml"])
def test_a_run_that_cannot_be_read_is_not_to_be_deleted(run: Path, name: str) -> None:
    (run / "origin.json").unlink()
    shutil.rmtree(run / "jobs")
    for content in ("", "{", "5", '{"members": []}'):
        (run / name).write_text(content)
        with pytest.raises(RunNotFoundError) as error:
            read_stored(RunFolder(run))
        assert str(error.value).startswith(f"{run / name} cannot be read: ")
        assert "Restore this file from a copy" in str(error.value)
        assert not re.search("remove|delete", str(error.value))


def test_a_result_needs_no_site(run: Path) -> None:
    (run / "site.toml").unlink()
    assert built(run).state == "complete"


def test_every_command_copes_with_a_damaged_run_and_a_richer_result_is_kept(
    stored: Path, run: Path, warm_trainmark: Command, tmp_path: Path
) -> None:
    shutil.copy(stored / "result.json", run)
    shutil.copytree(stored, run.parent / "20270101-whole")
    (run.parent / "20250101-unreadable").mkdir()
    (run.parent / "20250101-unreadable" / "plan.json").write_text("5")
    (run / EVENTS).unlink()
    (run / "origin.json").unlink()

    resumed = warm_trainmark("resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    result = json.loads(resumed.stdout)
    assert result["warnings"][0] == (
        "the Result stored earlier was made before files were damaged; it is kept as result-1.json"
    )
    assert (run / "result-1.json").read_bytes() == (stored / "result.json").read_bytes()
    assert warm_trainmark("resume", str(run), "--json").returncode == 0  # as poor as the stored one
    assert not (run / "result-2.json").exists()

    shown = warm_trainmark("show", str(run))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"! member 1 finished, but {EVENTS} is missing" in shown.stdout
    (run / "result.json").unlink()
    reported = warm_trainmark("report", str(run))
    assert (reported.returncode, reported.stderr) == (0, "")
    assert f"member 1 finished, but {EVENTS} is missing" in (run / "report.html").read_text()

    rows: list[dict[str, Any]] = json.loads(warm_trainmark("results", "--json").stdout)
    assert [row["state"] for row in rows] == ["unreadable", "complete", "complete"]
    assert [len(row["damage"]) for row in rows] == [1, 2, 0]
    listed = warm_trainmark("results").stdout
    assert "plan.json cannot be read: TypeError" in listed
    assert "! 20260101-damaged: origin.json is missing" in listed
