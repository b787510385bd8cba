"""Checkpoints are written without a second copy in memory, and one that is damaged is never resumed from."""

import json
import os
import shutil
import signal
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing import ProcessExitedException

from tests.waiting import wait_until
from tests.worker_group import run_workers
from trainmark.spec.config import LaunchConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.run_folder import CheckpointFolder, RunFolder
from trainmark.train import checkpoints as module
from trainmark.train.checkpoints import (
    Checkpoints,
    Position,
    find_checkpoints,
    read_checksum,
    resume_from_newest,
    write_state,
)
from trainmark.train.end_request import EndRequest
from trainmark.train.engine import RankContext
from trainmark.train.event_log import EventLog
from trainmark.train.out_of_memory import explain_out_of_memory
from trainmark.train.shared_store import Store
from trainmark.train.torch.engine import TorchEngine


class Weights:
    """As much of a parallel mode as a checkpoint needs."""

    def __init__(self) -> None:
        self.values = torch.zeros(1000)

    def state(self, optimizer: object) -> dict[str, Any]:
        return {"model": self.values}

    def load(self, state: dict[str, Any], optimizer: object) -> None:
        self.values.copy_(state["model"])


class Small(TorchEngine):
    """As much of the torch engine as a checkpoint needs."""

    def __init__(self, rank: int = 0, workers: int = 1, parallelism: Weights | None = None) -> None:
        self.rank, self.workers = rank, workers
        self.parallelism = parallelism or Weights()
        self._device, self._whole = torch.device("cpu"), None
        self._state = cast(Any, SimpleNamespace(parallelism=self.parallelism, optimizer=None))

    def context_of(self, run: RunFolder, attempt: int, **launch: Any) -> RankContext:
        log = EventLog(run.attempt(0, attempt).rank_events(self.rank))
        ranks = tuple(range(self.workers))
        record = SimpleNamespace(
            folder=run,
            config=SimpleNamespace(
                launch=LaunchConfig(**launch), train=SimpleNamespace(epochs=100, steps=None, minutes=None)
            ),
            job=SimpleNamespace(ranks=ranks, member=0),
        )
        return RankContext(cast(Any, record), cast(Any, SimpleNamespace(rank=self.rank)), run.attempt(0, attempt), log)


def train(run: RunFolder, attempt: int, steps: range, engine: Small, store: Store | None = None, **launch: Any) -> None:
    """Leaves a checkpoint before each step, in which all weights are the step's number."""
    checkpoints = Checkpoints(engine.context_of(run, attempt, **launch), store, EndRequest())
    for step in steps:
        engine.parallelism.values.fill_(step)
        checkpoints.save(engine, Position(step, epoch=step))


def go_on(
    run: RunFolder, attempt: int, engine: Small, store: Store | None = None
) -> tuple[Position, list[dict[str, Any]]]:
    """Where an attempt goes on from, and its events."""
    found = find_checkpoints(run, 0, attempt)
    position = resume_from_newest(found, engine.context_of(run, attempt), engine, store, steps_per_epoch=1)
    events = run.attempt(0, attempt).rank_events(engine.rank)
    return position, [json.loads(line) for line in events.read_text().splitlines()]


def flip(path: Path, num_bytes: int = 8) -> None:
    """Changes bytes in the middle of a file, among the weights."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    for place in range(middle, middle + num_bytes):
        data[place] ^= 0xFF
    path.write_bytes(data)


def newest_of(run: RunFolder, attempt: int = 1) -> CheckpointFolder:
    return run.attempt(0, attempt).checkpoints()[-1]


def test_the_newest_two_checkpoints_of_an_attempt_are_kept(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 5), Small())
    assert [each.path.name for each in run.attempt(0, 1).checkpoints()] == [
        "checkpoint-000000003",
        "checkpoint-000000004",
    ]


@pytest.mark.parametrize("kept", [1, 3])
def test_as_many_checkpoints_are_kept_as_the_user_chose(tmp_path: Path, kept: int) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 6), Small(), keep_checkpoints=kept)
    steps = [int(each.path.name.removeprefix("checkpoint-")) for each in run.attempt(0, 1).checkpoints()]
    assert steps == [3, 4, 5][-kept:]


def test_a_checkpoint_holds_the_checksums_of_its_files(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 2), Small())
    newest = newest_of(run)
    assert json.loads(newest.complete.read_text()) == {
        "member": 0,
        "step": 1,
        "trained_s": 0.0,
        "blake2b": [read_checksum(newest.rank(0))],
    }


def test_training_goes_on_from_the_newest_checkpoint_of_the_newest_attempt_that_has_one(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(7, 9), Small())
    train(run, 2, range(3, 4), Small())
    run.attempt(0, 2).checkpoint(9).path.mkdir()  # killed while it was written
    engine = Small()
    assert go_on(run, 4, engine)[0] == Position(3, epoch=3)
    assert engine.parallelism.values.unique().tolist() == [3.0]


def test_flipped_bytes_in_a_checkpoint_are_found_and_the_one_before_it_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, engine = RunFolder(tmp_path), Small()
    train(run, 1, range(1, 4), Small())
    flip(newest_of(run).rank(0))
    position, events = go_on(run, 2, engine)
    assert position == Position(2, epoch=2)
    assert engine.parallelism.values.unique().tolist() == [2.0]
    name = "jobs/0000/attempt-1/checkpoint-00000000"
    assert [(event["kind"], event["checkpoint"]) for event in events] == [
        ("checkpoint_damaged", f"{name}3"),
        ("resumed", f"{name}2"),
    ]
    assert events[0]["ranks"] == [0]
    assert events[0]["reason"].endswith("rank-0.state does not match its checksum")
    assert capsys.readouterr().err == f"trainmark: {name}3 is damaged (rank 0) and is not used\n"


def test_if_all_checkpoints_of_an_attempt_are_damaged_those_of_the_attempt_before_are_used(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 3), Small())
    train(run, 2, range(4, 6), Small())
    for checkpoint in run.attempt(0, 2).checkpoints():
        flip(checkpoint.rank(0))
    assert go_on(run, 3, Small())[0] == Position(2, epoch=2)


@pytest.mark.parametrize("damage", ["cut", "removed", "checksums damaged", "no checksum of this rank"])
def test_if_every_checkpoint_is_damaged_training_starts_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(module, "read_when_visible", lambda read, _: read())  # without waiting for storage that is late
    run, engine = RunFolder(tmp_path), Small()
    train(run, 1, range(1, 3), Small())
    for checkpoint in run.attempt(0, 1).checkpoints():
        if damage == "cut":
            checkpoint.rank(0).write_bytes(checkpoint.rank(0).read_bytes()[:-1])
        elif damage == "removed":
            checkpoint.rank(0).unlink()
        else:
            checkpoint.complete.write_text("{" if damage == "checksums damaged" else '{"blake2b": []}')
    position, events = go_on(run, 2, engine)
    assert position == Position()
    assert [event["kind"] for event in events] == ["checkpoint_damaged"] * 2
    assert not engine.parallelism.values.any()


def test_a_checkpoint_of_an_earlier_version_has_no_checksums_and_is_loaded_all_the_same(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 3), Small())
    for checkpoint in run.attempt(0, 1).checkpoints():
        checkpoint.complete.write_text("")
        checkpoint.rank(0).rename(checkpoint.path / "rank-0.pt")
    assert go_on(run, 2, Small())[0] == Position(2, epoch=2)
    newest_of(run).rank(0).write_bytes(b"PK")
    assert go_on(run, 3, Small())[0] == Position(1, epoch=1)


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8000 bytes."),
    ],
)
def test_memory_that_is_too_small_for_a_checkpoint_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError, *, has_checksums: bool
) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 2), Small())
    if not has_checksums:
        newest_of(run).complete.write_text("")
        newest_of(run).rank(0).rename(newest_of(run).path / "rank-0.pt")

    def load(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(RuntimeError) as raised:
        go_on(run, 2, Small())
    assert raised.value is error
    assert (explain_out_of_memory(error) or "").startswith("out of memory: ")


def test_memory_that_runs_out_while_weights_are_copied_is_not_called_damage(tmp_path: Path) -> None:
    class TooLarge(Weights):
        def load(self, state: dict[str, Any], optimizer: object) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    run = RunFolder(tmp_path)
    train(run, 1, range(1, 2), Small())
    with pytest.raises(torch.OutOfMemoryError):
        go_on(run, 2, Small(parallelism=TooLarge()))


def test_a_whole_checkpoint_that_does_not_fit_the_model_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    run, other = RunFolder(tmp_path), Small()
    train(run, 1, range(1, 2), Small())
    other.parallelism.values = torch.zeros(7)
    with pytest.raises(TrainmarkError, match=r"is intact, but does not fit .*Resume with that one, or start a new run"):
        go_on(run, 2, other)


def test_writing_a_checkpoint_makes_no_copy_of_it_in_memory(tmp_path: Path) -> None:
    state = {"weights": torch.zeros(2**22), "more": torch.zeros(2**22)}  # 16 MiB each
    write_state(
        tmp_path / "first", lambda file: torch.save({"weights": torch.zeros(1)}, file)
    )  # what is imported first
    tracemalloc.start()
    try:
        checksum = write_state(tmp_path / "state", lambda file: torch.save(state, file))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20
    assert (tmp_path / "state").stat().st_size > 32 * 2**20
    assert read_checksum(tmp_path / "state") == checksum


def two_ranks(rank: int, folder: str) -> None:
    """Trains, then goes on as a second attempt from what rank 1 finds damaged; the outcome is left in a file."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=2)
    run = RunFolder(Path(folder))
    train(run, 1, range(1, 4), Small(rank, 2), store)
    if rank == 1:
        flip(newest_of(run).rank(1))
    dist.barrier()
    engine = Small(rank, 2)
    position, events = go_on(run, 2, engine, store)
    damaged = [(event["ranks"], event["reason"] is None) for event in events if event["kind"] == "checkpoint_damaged"]
    outcome = [position.step, engine.parallelism.values.unique().tolist(), damaged]
    Path(folder, f"outcome-{rank}.json").write_text(json.dumps(outcome))
    dist.destroy_process_group()


def test_all_ranks_skip_a_checkpoint_that_one_of_them_finds_damaged(tmp_path: Path) -> None:
    run_workers(two_ranks, (str(tmp_path),), 2)
    outcomes = [json.loads((tmp_path / f"outcome-{rank}.json").read_text()) for rank in (0, 1)]
    assert outcomes == [[2, [2.0], [[[1], True]]], [2, [2.0], [[[1], False]]]]


class Dying(Small):
    """An engine of which rank 1 dies while it writes its second checkpoint."""

    def save(self, file: Any) -> None:
        if self.rank == 1 and self.parallelism.values[0] == 2:
            os._exit(9)
        super().save(file)


def lose_a_rank(rank: int, folder: str) -> None:
    """Leaves a file as soon as rank 0 has noticed that rank 1 is gone."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # by which whoever started the ranks ends them when one is gone
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=2)
    began_s = time.monotonic()
    try:
        train(RunFolder(Path(folder)), 1, range(1, 4), Dying(rank, 2), store)
    except RuntimeError:
        Path(folder, "noticed").write_text(str(time.monotonic() - began_s))
    os._exit(0)


def test_a_rank_that_dies_while_it_writes_a_checkpoint_is_noticed_at_once_and_leaves_no_complete_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(ProcessExitedException, match="exit code 9"):
        run_workers(lose_a_rank, (str(tmp_path),), 2)
    wait_until((tmp_path / "noticed").exists)
    assert float((tmp_path / "noticed").read_text()) < 120  # the store would have waited for its timeout, 600 s
    complete = [each for each in RunFolder(tmp_path).attempt(0, 1).checkpoints() if each.complete.exists()]
    assert [each.step for each in complete] == [1]


def test_a_checkpoint_of_another_member_or_step_or_beyond_the_end_is_not_used(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 3), Small())
    newest = newest_of(run).path
    for name, record in (
        ("checkpoint-000000003", {"step": 3, "member": 1}),
        ("checkpoint-000000004", {}),
        ("checkpoint-000000100", {"step": 100}),
    ):
        shutil.copytree(newest, newest.with_name(name))
        complete = newest.with_name(name) / "complete"
        complete.write_text(json.dumps(json.loads(complete.read_text()) | record))
    position, events = go_on(run, 2, Small())
    assert position == Position(2, epoch=2)
    assert [event["kind"] for event in events] == ["checkpoint_damaged"] * 3 + ["resumed"]


def test_an_emptied_mark_of_completion_does_not_switch_the_checksums_off(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    train(run, 1, range(1, 3), Small())
    newest_of(run).complete.write_text("")
    flip(newest_of(run).rank(0))
    assert go_on(run, 2, Small())[0] == Position(1, epoch=1)
