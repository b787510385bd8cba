"""Staging as a user runs it: the same losses, one copy for a node's workers, used again, and every fault told."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Command
from tests.run_events import events_of, losses_of
from tests.small_disk import small_disk_on
from tests.two_cores import CORES

SITE = f"""
name = "desk"

[[groups]]
names = ["desk"]
local_storage = "$DESK_DISK"
slots = [{", ".join(f'{{ cores = "{core}" }}' for core in CORES)}]
"""

# A small model on small images, so that little but reading takes time.
IMAGES = [
    *("--set", "model=resnet-tiny", "--set", "dataset=imagenet", "--set", "data.path=pictures"),
    *("--set", "data.image_size=32", "--set", "train.augmentation=crop"),
]
WEATHER = ["extreme-weather", "--set", "data.num_train=24", "--set", "data.num_eval=8"]
SHORT = [
    *("--set", "train.epochs=2", "--set", "train.batch_size=4", "--set", "measure.ceiling=false"),
    *("--site", "site.toml", "--set", "launch.threads=1", "--json"),
]
STAGED = ["--set", "launch.stage=local"]


class Desk:
    """A folder with a site file, pictures to be trained on, and a disk that is this node's own."""

    def __init__(self, warm_trainmark: Command, folder: Path) -> None:
        self._trainmark = warm_trainmark
        self.folder, self.disk = folder, folder / "disk"
        self.disk.mkdir()
        (folder / "site.toml").write_text(SITE)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._trainmark(*arguments, DESK_DISK=str(self.disk))

    def make_pictures(self) -> None:
        few = ("--set", "num_train=60", "--set", "num_eval=20", "--set", "num_classes=5")
        made = self.command("data", "make", "imagenet", "-o", "pictures", *few)
        assert made.returncode == 0, made.stderr

    def run(self, *arguments: str) -> dict[str, Any]:
        done = self.command("run", *SHORT, *arguments)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def folder_of(self, result: dict[str, Any]) -> Path:
        return self.folder / "runs" / str(result["run_id"])

    def newest_run(self) -> Path:
        return max(path for path in (self.folder / "runs").iterdir() if (path / "plan.json").exists())

    def packs(self) -> list[Path]:
        return sorted((self.disk / f"trainmark-{os.geteuid()}").glob("[!.]*"))


@pytest.fixture
def desk(warm_trainmark: Command, tmp_path: Path) -> Desk:
    return Desk(warm_trainmark, tmp_path)


def events(run: Path, kind: str, **of: int) -> list[dict[str, Any]]:
    return [event for event in events_of(run, **of) if event["kind"] == kind]


def needed(run: Path, member: int) -> int:
    return int(np.count_nonzero(np.load(run / "bootstrap" / f"{member:04d}.npy")))


def test_two_workers_share_one_copy_and_losses_are_the_same_as_without(desk: Desk) -> None:
    desk.make_pictures()
    together = (*IMAGES, "--members", "1", "--workers", "2")
    plain, staged = desk.run(*together), desk.run(*together, *STAGED)
    run = desk.folder_of(staged)
    for rank in (0, 1):
        losses = losses_of(run, rank=rank)
        assert losses == losses_of(desk.folder_of(plain), rank=rank) and len(losses) >= 8
    quality = "quality_out_of_bag"  # its samples are not in the pack
    assert staged["metrics"][quality]["value"] == plain["metrics"][quality]["value"]

    (start,), (stop,) = events(run, "staging_start"), events(run, "staging_stop")
    assert (stop["samples"], stop["of_samples"], stop["reused"]) == (needed(run, 0), 60, False)
    assert start["samples"] == needed(run, 0)
    assert not events(run, "staging_stop", rank=1)
    (pack,) = desk.packs()
    assert stop["folder"] == str(pack) and stop["bytes"] == (pack / "samples").stat().st_size
    for rank in (0, 1):
        (ready,) = events(run, "data_ready", rank=rank)
        assert ready["kept"] == "read from the node's own storage"
    (training,) = events(run, "run_start")
    assert stop["wall_s"] < training["wall_s"]

    metric = staged["metrics"]["staging_time_s"]
    assert metric["value"] == stop["staging_s"] and metric["detail"]["copied_bytes"] == stop["bytes"]
    assert metric["detail"]["samples_share"] == pytest.approx(needed(run, 0) / 60)
    assert plain["metrics"]["staging_time_s"]["reason"] == "nothing was staged: launch.stage is none"
    assert plain["provenance"]["dataset_fingerprint"] == staged["provenance"]["dataset_fingerprint"]


def test_each_member_stages_its_own_samples_and_another_run_finds_them(desk: Desk) -> None:
    once = (*WEATHER, "--set", "train.epochs=1")
    plain = desk.run(*once, "--members", "1")
    first, again = desk.run(*once, "--members", "2", *STAGED), desk.run(*once, "--members", "1", *STAGED)
    for result, member, reused in ((first, 0, False), (first, 1, False), (again, 0, True)):
        run = desk.folder_of(result)
        (stop,) = events(run, "staging_stop", member=member)
        assert (stop["samples"], stop["of_samples"], stop["reused"]) == (needed(run, member), 24, reused)
        # 16 channels × 64 × 96 values of 4 bytes
        assert stop["bytes"] == needed(run, member) * 16 * 64 * 96 * 4
    assert len(desk.packs()) == 2
    losses = losses_of(desk.folder_of(plain))
    assert losses_of(desk.folder_of(first)) == losses == losses_of(desk.folder_of(again)) and len(losses) >= 4
    detail = again["metrics"]["staging_time_s"]["detail"]
    assert (detail["reused_packs"], detail["copied_packs"], detail["bytes_per_s"]) == (1, 0, None)


def test_a_changed_byte_fails_the_member_with_its_name_and_resume_stages_anew(desk: Desk) -> None:
    desk.make_pictures()
    one = (*IMAGES, "--members", "1", *STAGED)
    undisturbed = desk.run(*one)
    (pack,) = desk.packs()
    content = bytearray((pack / "samples").read_bytes())
    content[len(content) // 2] ^= 1
    (pack / "samples").write_bytes(content)
    failed = desk.command("run", *SHORT, *one)
    assert failed.returncode == 1 and failed.stderr.count("Traceback") == 0
    assert str(pack / "samples") in failed.stderr and "its bytes do not match their checksum" in failed.stderr
    run = desk.newest_run()
    assert events(run, "staging_stop")[0]["reused"]
    resumed = desk.command("resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    (stop,) = events(run, "staging_stop", attempt=2)
    assert (stop["reused"], stop["replaced"]) == (False, "it has no completion record")
    assert losses_of(run, attempt=2) == losses_of(desk.folder_of(undisturbed))


def test_a_later_attempt_finds_what_the_first_has_staged(desk: Desk) -> None:
    desk.make_pictures()
    evaluated = sorted((desk.folder / "pictures").glob("val/*/*.JPEG"))[0]
    content = evaluated.read_bytes()
    evaluated.write_bytes(content[:2000])  # samples are staged and trained on; the evaluation fails
    failed = desk.command("run", *SHORT, *IMAGES, "--members", "1", "--set", "evaluate.every_epochs=2", *STAGED)
    run = desk.newest_run()
    assert failed.returncode == 1 and str(evaluated) in failed.stderr
    assert not events(run, "staging_stop")[0]["reused"]
    evaluated.write_bytes(content)
    resumed = desk.command("resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert events(run, "staging_stop", attempt=2)[0]["reused"]
    assert json.loads(resumed.stdout)["metrics"]["staging_time_s"]["detail"]["reused_packs"] == 1


@pytest.fixture
def small_disk(desk: Desk) -> Iterator[Path]:
    """The node's own disk holds 2 MiB."""
    with small_disk_on(desk.disk, mebibytes=2) as disk:
        yield disk


def test_a_local_disk_that_is_too_small_fails_both_workers_in_one_line_and_holds_nothing(
    desk: Desk, small_disk: Path
) -> None:
    desk.make_pictures()
    failed = desk.command("run", *SHORT, *IMAGES, "--members", "1", "--workers", "2", *STAGED)
    run = desk.newest_run()
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert "member 0 failed: rank 0 failed:" in last
    assert f"has 2 MiB free, but the {needed(run, 0)} samples to be staged take about" in last
    assert "--runs-dir" not in last  # the run's own folder has space
    assert desk.packs() == []
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    resumed = desk.command("resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert len(desk.packs()) == 1


def test_without_local_storage_it_is_refused_and_nothing_is_touched(warm_trainmark: Command, tmp_path: Path) -> None:
    done = warm_trainmark("run", *STAGED)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "has no local_storage for" in done.stderr and "--set launch.stage=none" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_data_in_memory_are_trained_on_as_ever_and_the_result_says_that_nothing_was_staged(desk: Desk) -> None:
    result = desk.run("--members", "1", "--set", "data.num_train=100", "--set", "data.num_eval=20", *STAGED)
    why = "nothing was staged: samples of shapes are not read from disk individually"
    assert result["metrics"]["staging_time_s"]["reason"] == why
    assert f"launch.stage is local, but {why}" in result["warnings"]
    assert not list(desk.disk.iterdir())


def test_data_that_were_staged_ahead_are_found_by_every_member(desk: Desk) -> None:
    desk.make_pictures()
    stage = ("data", "stage", "imagenet", "--set", "path=pictures", "--to", str(desk.disk))
    ahead = desk.command(*stage, "--json")
    assert ahead.returncode == 0, ahead.stderr
    told = json.loads(ahead.stdout)
    assert (told["samples"], told["reused"]) == (60, False)
    again = desk.command(*stage)
    assert "60 samples" in again.stdout and "already staged in" in again.stdout
    result = desk.run(*IMAGES, "--members", "2", *STAGED)
    for member in (0, 1):
        (stop,) = events(desk.folder_of(result), "staging_stop", member=member)
        assert (stop["samples"], stop["reused"], stop["folder"]) == (60, True, told["folder"])
    assert [str(pack) for pack in desk.packs()] == [told["folder"]]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("shapes",), 2, "is generated in memory and not stored"),
        (("cifar10", "--set", "path=small"), 2, "there is nothing to stage"),
        (("imagenet",), 2, "data.path is not set"),
        (("imagenet", "--set", "path=pictures", "--to", "/no/such/disk"), 1, "--to is '/no/such/disk'"),
    ],
)
def test_what_cannot_be_staged_ahead_is_refused_in_one_line(
    desk: Desk, arguments: tuple[str, ...], code: int, says: str
) -> None:
    few = ("--set", "num_train=40", "--set", "num_eval=20")
    for name, folder in (("cifar10", "small"), ("imagenet", "pictures")):
        if f"path={folder}" in arguments:
            assert desk.command("data", "make", name, "-o", folder, *few).returncode == 0
    done = desk.command("data", "stage", "--to", str(desk.disk), *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr and done.stderr.count("\n") == 1
