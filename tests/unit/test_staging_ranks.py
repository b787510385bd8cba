"""The ranks of a member stage together: the first of each node copies, all wait for all nodes, one failure ends all."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planned import planned_config
from trainmark.collect.progress import ProgressReader
from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.staging.pack import Selection
from trainmark.spec.errors import StorageError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import StagingStart, StagingStop
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.train import staging
from trainmark.train.event_log import EventLog

# Two workers on the first node, one on the second.
RANKS = (Rank(0, "n1", 0, (0,), None), Rank(1, "n1", 1, (1,), None), Rank(2, "n2", 0, (0,), None))
GROUP = NodeGroup(prefix="n", count=2, slots=(Slot(cores=(0,)), Slot(cores=(1,))), local_storage="$NODE_DISK")
NEEDED = np.arange(20) % 3 > 0  # 13 of 20


@pytest.fixture
def record(tmp_path: Path) -> JobRecord:
    Imagenet(ImagenetSettings(num_train=20, num_eval=5, num_classes=5)).make(tmp_path / "data", lambda *_: None)
    return JobRecord(RunFolder(tmp_path / "run"), planned_config(), Site(name="s", groups=(GROUP,)), Job(0, 0, RANKS))


def staging_rank(record: JobRecord, rank: Rank, disk: Path, told: Any) -> None:
    """What one rank does, in a process of its own, on a node whose own storage is `disk`."""
    os.environ["NODE_DISK"] = str(disk)
    split = Imagenet(ImagenetSettings(path=str(record.folder.path.parent / "data"))).load("train")
    attempt = record.folder.attempt(0, 1)
    wanted = Selection("imagenet", split.fingerprint(), NEEDED)
    try:
        staged = staging.stage_on_node(split, wanted, record, rank, attempt, EventLog(attempt.rank_events(rank.rank)))
        told.put((rank.rank, all(bytes(staged.raw(i)) == split.raw(i) for i in range(20))))
    except StorageError as error:
        told.put((rank.rank, str(error)))


def stage_together(record: JobRecord, *disks: Path) -> dict[int, Any]:
    """What each rank said; `disks` are those that the ranks see."""
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    places = zip(RANKS, disks, strict=True)
    processes = [context.Process(target=staging_rank, args=(record, rank, disk, told)) for rank, disk in places]
    for process in reversed(processes):  # those that wait come first
        process.start()
    said = dict(told.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    return said


def packs(disk: Path) -> list[Path]:
    return list(disk.glob("trainmark-*/imagenet-*"))


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """What each of two nodes has of its own."""
    made = tmp_path / "disk1", tmp_path / "disk2"
    for disk in made:
        disk.mkdir()
    return made


def test_the_first_rank_of_each_node_copies_and_the_others_use_it(record: JobRecord, disks: tuple[Path, Path]) -> None:
    assert stage_together(record, disks[0], disks[0], disks[1]) == {0: True, 1: True, 2: True}
    assert [len(packs(disk)) for disk in disks] == [1, 1]
    attempt = record.folder.attempt(0, 1)
    for rank in (0, 2):
        start, stop = map(json.loads, attempt.rank_events(rank).read_text().splitlines())
        assert (start["kind"], start["samples"], start["of_samples"]) == ("staging_start", 13, 20)
        assert (stop["kind"], stop["samples"], stop["reused"], stop["replaced"]) == ("staging_stop", 13, False, None)
        assert stop["bytes"] == (Path(stop["folder"]) / "samples").stat().st_size
    assert attempt.rank_events(1).read_text() == ""


def test_when_one_node_cannot_stage_no_rank_waits_for_it(
    record: JobRecord, disks: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "GRACE_S", 0.1)  # there is no launcher that would end them
    said = stage_together(record, disks[0], disks[0], tmp_path / "missing")
    why = f"{tmp_path / 'missing'} does not exist"
    assert why in said[2] and said[2].startswith("groups.local_storage is '$NODE_DISK'")
    for rank in (0, 1):
        assert said[rank].startswith("Rank 2 could not stage the samples on its node: ") and why in said[rank]


def test_a_rank_whose_local_storage_is_not_its_nodes_says_so(
    record: JobRecord, disks: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    said = stage_together(record, disks[0], tmp_path / "own", disks[1])
    assert said[0] is True and said[2] is True
    assert "does not exist" in said[1] and "that all workers of a node share" in said[1]


def test_while_samples_are_copied_the_members_state_is_staging(record: JobRecord) -> None:
    plan = Plan(1, 3, 3, "s", 1, 3, 3, 0, (record.job,))
    reader = ProgressReader(record.folder, record.config, plan)
    number, attempt = record.new_attempt()
    log = EventLog(attempt.rank_events(0))
    states = [reader.read()[0].state]
    for event in (StagingStart(), StagingStop(samples=1, of_samples=1, bytes=10, staging_s=0.1, reused=False)):
        log.write(event)
        states.append(reader.read()[0].state)
    assert (number, states) == (1, ["starting", "staging", "starting"])
