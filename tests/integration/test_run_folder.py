"""A run's folder after it was edited, copied or damaged: what ran is stated, and nothing else is touched."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.run_events import events_of, losses_of
from tests.waiting import TIMEOUT_S
from tests.warm import WarmProcess

# Images on disk, made beside the runs, and a model that takes little time.
TINY = [
    *("--members", "1", "--workers", "1", "--set", "dataset=imagenet", "--set", "model=resnet-tiny", "--seed", "3"),
    *("--set", "data.num_train=60", "--set", "data.num_eval=20", "--set", "data.num_classes=5"),
    *("--set", "data.image_size=32", "--set", "train.batch_size=16", "--set", "train.epochs=4"),
    *("--set", "train.optimizer=sgd", "--set", "train.learning_rate=0.01", "--set", "measure.ceiling=false"),
    *("--set", "launch.threads=1"),  # losses that are equal bit for bit
]
CHECKPOINTS = "jobs/0000/attempt-1/checkpoint-*"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that went well."""
    folder = tmp_path_factory.mktemp("whole")
    process = WarmProcess(["run", *TINY, "--json"], folder, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    output, errors = process.communicate(TIMEOUT_S)
    assert process.wait() == 0, errors
    return folder / "runs" / json.loads(output)["run_id"]


@pytest.fixture
def unfinished(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, as if its launcher had been killed in the last epoch; the data were not copied along."""
    copy = tmp_path / "elsewhere" / whole.name
    shutil.copytree(whole, copy)
    for name in ("jobs/0000/attempt-1/done.json", "jobs/0000/attempt-1/exit.json", "result.json"):
        (copy / name).unlink()
    return copy


def as_of_an_earlier_version(folder: Path) -> None:
    """Leaves the configuration in config.toml and job.json only."""
    origin = json.loads((folder / "origin.json").read_text())
    del origin["begun_with"]
    (folder / "origin.json").write_text(json.dumps(origin))


def edit(path: Path, **values: str) -> None:
    """Changes settings of a TOML or JSON file, each where its name stands first."""
    text = path.read_text()
    for name, value in values.items():
        text, count = re.subn(rf'^(\s*"?{name}"?(?: =|:) )[^,\n]+', rf"\g<1>{value}", text, count=1, flags=re.MULTILINE)
        assert count == 1, name
    path.write_text(text)


def shown(warm_trainmark: Command, folder: Path) -> dict[str, Any]:
    done = warm_trainmark("show", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def everything_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The content of each file, and when it was written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("of_version", ["this", "earlier"])
def test_settings_that_were_edited_after_the_run_are_refused_by_resume_and_never_stated(
    unfinished: Path, warm_trainmark: Command, of_version: str
) -> None:
    if of_version == "earlier":
        as_of_an_earlier_version(unfinished)
    edit(unfinished / "config.toml", seed="7", learning_rate="0.5", optimizer='"lars"')
    before = everything_in(unfinished)
    done = warm_trainmark("resume", str(unfinished))
    assert done.returncode == 2
    assert done.stderr == (
        f"trainmark: Run {unfinished.name} was edited after it started: config.toml: seed is 7, was 3; config.toml: "
        "train.optimizer is 'lars', was 'sgd'; config.toml: train.learning_rate is 0.5, was 0.01. Undo the edits to "
        f"resume it, or start a new run with: trainmark run --config {unfinished}/config.toml\n"
    )
    result = shown(warm_trainmark, unfinished)
    assert (result["config"]["seed"], result["config"]["train"]["optimizer"]) == (3, "sgd")
    assert result["config"]["train"]["learning_rate"] == 0.01
    assert "changed since the run started: config.toml: seed is 7, was 3" in result["warnings"]
    assert json.loads(warm_trainmark("status", str(unfinished), "--json").stdout)["members"][0]["epochs"] == 4
    assert everything_in(unfinished) == before


def test_an_edited_plan_and_site_are_refused_as_well(unfinished: Path, warm_trainmark: Command) -> None:
    site = json.loads((unfinished / "origin.json").read_text())["begun_with"]["site"]["name"]
    edit(unfinished / "plan.json", system_scale="2")
    edit(unfinished / "site.toml", name='"another"')
    done = warm_trainmark("resume", str(unfinished))
    assert done.returncode == 2
    assert f"plan.json: system_scale is 2, was 1; site.toml: name is 'another', was '{site}'." in done.stderr
    assert shown(warm_trainmark, unfinished)["plan"]["system_scale"] == 1


def test_a_copied_folder_resumes_where_it_is_and_the_original_stays_as_it_was(
    whole: Path, unfinished: Path, warm_trainmark: Command
) -> None:
    before = everything_in(whole.parent)
    done = warm_trainmark("resume", str(unfinished), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["state"], result["members"][0]["restarted"]) == ("complete", True)
    assert losses_of(unfinished, attempt=2) == losses_of(whole)[-len(losses_of(unfinished, attempt=2)) :]
    assert everything_in(whole.parent) == before
    script = (unfinished / "jobs/0000/job.sh").read_text()
    assert str(unfinished) in script and str(whole) not in script
    assert [path.name for path in (unfinished.parent / "data").iterdir()] == [
        path.name for path in (whole.parent / "data").iterdir()
    ]
    assert not [warning for warning in result["warnings"] if "edited" in warning or "damaged" in warning]


def test_a_data_folder_of_its_own_serves_runs_wherever_they_are(warm_trainmark: Command, tmp_path: Path) -> None:
    one_epoch = [*TINY, "--set", "train.epochs=1", "--json"]
    done = warm_trainmark("run", *one_epoch, "--data-dir", "scratch")
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "scratch").iterdir()
    assert not (tmp_path / "runs" / "data").exists()
    inode = made.stat().st_ino
    moved = tmp_path / "elsewhere" / json.loads(done.stdout)["run_id"]
    moved.parent.mkdir()
    (tmp_path / "runs" / moved.name).rename(moved)
    for name in ("jobs/0000/attempt-1/done.json", "jobs/0000/attempt-1/exit.json", "result.json"):
        (moved / name).unlink()
    assert warm_trainmark("resume", str(moved)).returncode == 0
    assert [path.name for path in moved.parent.iterdir()] == [moved.name]
    assert [path.stat().st_ino for path in (tmp_path / "scratch").iterdir()] == [inode]


def test_a_complete_run_that_was_moved_is_collected_without_its_data(
    whole: Path, tmp_path: Path, warm_trainmark: Command
) -> None:
    moved = tmp_path / "elsewhere" / whole.name
    shutil.copytree(whole, moved)
    done = warm_trainmark("resume", str(moved), "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "complete")
    assert [path.name for path in moved.parent.iterdir()] == [whole.name]


def flip_eight_bytes(checkpoint: Path) -> None:
    data = bytearray((checkpoint / "rank-0.state").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8] = bytes(byte ^ 0xFF for byte in data[middle : middle + 8])
    (checkpoint / "rank-0.state").write_bytes(data)


@pytest.mark.parametrize("num_damaged", [1, 2])
def test_flipped_bytes_in_a_checkpoint_cost_the_work_since_the_one_before_and_are_stated(
    whole: Path, unfinished: Path, warm_trainmark: Command, num_damaged: int
) -> None:
    older, newer = sorted(unfinished.glob(CHECKPOINTS))
    for checkpoint in [newer, older][:num_damaged]:
        flip_eight_bytes(checkpoint)
    done = warm_trainmark("resume", str(unfinished), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "complete"
    events = events_of(unfinished, attempt=2)
    resumed = [event["checkpoint"] for event in events if event["kind"] == "resumed"]
    names = [str(each.relative_to(unfinished)) for each in (newer, older)]
    assert [event["checkpoint"] for event in events if event["kind"] == "checkpoint_damaged"] == names[:num_damaged]
    assert resumed == names[num_damaged:]
    instead = f"resumed from {names[1]}" if resumed else "restarted from scratch"
    text = f"member 0 {instead}: {', '.join(names[:num_damaged])} damaged on disk. Check the storage of the run."
    assert text in result["warnings"]
    assert (
        f"trainmark: {names[0]} is damaged (rank 0) and is not used\n"
        in (unfinished / "jobs/0000/attempt-2/rank-0.log").read_text()
    )
    straight, again = losses_of(whole), losses_of(unfinished, attempt=2)
    assert again == straight[len(straight) - len(again) :]
    assert len(again) == len(straight) if num_damaged == 2 else len(straight) > len(again)


def test_a_data_folder_that_is_a_file_is_refused_by_dry_runs_too(warm_trainmark: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = warm_trainmark("run", "--dry-run", "--data-dir", "file", "--set", "dataset=cifar10")
    assert done.returncode == 2
    assert done.stderr.endswith("/file is not a folder. Choose another folder with --data-dir.\n")
