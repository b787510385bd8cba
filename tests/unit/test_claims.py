"""One process at a time works on a run, and others can tell whether it still does."""

import errno
import json
import multiprocessing
import os
import shutil
import time
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from tests.small_disk import fill, small_disk_on
from tests.waiting import TIMEOUT_S
from trainmark.machine import claims
from trainmark.machine.storage import RESERVE_BYTES, keep_reserve
from trainmark.spec.errors import RunFailedError, StorageError
from trainmark.spec.run_folder import RunFolder

ELSEWHERE = {"host": "no-such-host", "pid": 1, "created_s": 0.0}
ROUNDS, RACERS = 25, 8


def claim_of_another_host(folder: RunFolder, age_s: float) -> None:
    write_claim(folder, 1, ELSEWHERE)
    then = time.time() - age_s
    os.utime(folder.claim(1), (then, then))


def write_claim(folder: RunFolder, number: int, claim: dict[str, Any]) -> None:
    folder.claim(number).parent.mkdir(parents=True, exist_ok=True)
    folder.claim(number).write_text(json.dumps(claim))


def gone_process() -> dict[str, Any]:
    """This process, as if its number were used again."""
    return {**claims.this_process(), "created_s": 0.0, "start_ticks": 0}


def test_a_claim_of_another_host_holds_while_it_is_kept_fresh(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    claim_of_another_host(folder, age_s=60)
    assert claims.has_live_claim(folder)
    with pytest.raises(RunFailedError, match="process 1 on no-such-host"), claims.claimed(folder):
        pass
    with pytest.raises(RunFailedError, match="Cancel it there"):
        claims.stop_claim_holder(folder)


def test_a_claim_of_another_host_that_nobody_keeps_fresh_is_taken_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    claim_of_another_host(folder, age_s=200)
    assert not claims.has_live_claim(folder)
    assert not claims.stop_claim_holder(folder)
    with claims.claimed(folder):
        assert json.loads(folder.claim(2).read_text())["pid"] == os.getpid()
        assert claims.has_live_claim(folder)
    assert not claims.has_live_claim(folder)


def test_a_claim_is_kept_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_S", 0.02)
    folder = RunFolder(tmp_path)
    with claims.claimed(folder):
        os.utime(folder.claim(1), (0, 0))
        deadline = time.monotonic() + 10
        while folder.claim(1).stat().st_mtime < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert folder.claim(1).stat().st_mtime > 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
@pytest.mark.parametrize("number", [0, 1])  # 0: the file of earlier versions
def test_an_empty_or_unreadable_claim_does_not_block(tmp_path: Path, number: int, content: str) -> None:
    folder = RunFolder(tmp_path)
    write_claim(folder, number, {})
    folder.claim(number).write_text(content)
    assert not claims.has_live_claim(folder)
    assert not claims.stop_claim_holder(folder)
    with claims.claimed(folder):
        assert claims.has_live_claim(folder)


def test_a_claim_of_an_earlier_version_holds(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_claim(folder, 0, claims.this_process())
    assert folder.claim(0) == tmp_path / "launcher.json"
    with pytest.raises(RunFailedError, match=f"process {os.getpid()} on "), claims.claimed(folder):
        pass


def test_the_claim_of_a_run_does_not_hold_for_a_copy_of_its_folder(tmp_path: Path) -> None:
    original, copy, moved = (RunFolder(tmp_path / name) for name in ("original", "copy", "moved"))
    original.path.mkdir()
    with claims.claimed(original):
        shutil.copytree(original.path, copy.path)
        assert not claims.has_live_claim(copy)
        assert not claims.stop_claim_holder(copy)
        with claims.claimed(copy):
            assert claims.has_live_claim(original)
        original.path.rename(moved.path)  # its process goes on, so the claim holds there
        assert claims.has_live_claim(moved)


def race(folders: list[RunFolder], barrier: Barrier, winners: Any) -> None:
    """Tries to claim each folder at the same time as the others; a claim is held until all have tried."""
    for number, folder in enumerate(folders):
        barrier.wait(TIMEOUT_S)
        with suppress(RunFailedError), claims.claimed(folder):
            winners.put(number)
            barrier.wait(TIMEOUT_S)
            continue
        barrier.wait(TIMEOUT_S)


def test_of_processes_that_see_the_same_stale_claim_one_alone_wins(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path / str(number)) for number in range(ROUNDS)]
    for number, folder in enumerate(folders):
        write_claim(folder, number % 2, gone_process())
    context = multiprocessing.get_context("forkserver")
    barrier, winners = context.Barrier(RACERS), context.Queue()
    racers = [context.Process(target=race, args=(folders, barrier, winners)) for _ in range(RACERS)]
    for racer in racers:
        racer.start()
    won = sorted(winners.get(timeout=TIMEOUT_S) for _ in range(ROUNDS))
    for racer in racers:
        racer.join(TIMEOUT_S)
    assert [racer.exitcode for racer in racers] == [0] * RACERS
    assert won == list(range(ROUNDS))
    assert winners.empty()


def test_a_link_whose_answer_was_lost_is_found_by_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def repeated(source: Path, target: Path) -> None:  # as NFS does when an answer is late
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", repeated)
    with claims.claimed(RunFolder(tmp_path)):
        assert claims.has_live_claim(RunFolder(tmp_path))


def test_on_a_full_disk_claiming_fails_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with small_disk_on(tmp_path / "disk", mebibytes=1) as disk:
        folder = RunFolder(disk / "run")
        write_claim(folder, 1, gone_process())
        filler = fill(disk)
        with pytest.raises(StorageError, match=r"No space left in .*/run\. Free some, then continue with: trainm"):
            claims.claimed(folder).__enter__()
        assert [path.name for path in (disk / "run" / "claims").iterdir()] == ["0001.json"]
        filler.unlink()
        with claims.claimed(folder):
            fill(disk)
        assert not claims.has_live_claim(folder)


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(claims, "write_json", refuse)
    with pytest.raises(StorageError, match=r"cannot be claimed: Read-only file system. Make .* writable"):
        claims.claimed(RunFolder(tmp_path)).__enter__()


def test_a_reserve_that_a_full_disk_has_cut_is_made_whole_again(tmp_path: Path) -> None:
    reserve = tmp_path / ".reserve-exit"
    for content in (b"", b"x" * 4096):
        reserve.write_bytes(content)
        keep_reserve(reserve)
        assert reserve.stat().st_size == RESERVE_BYTES == 256 * 1024
    whole = reserve.read_bytes()
    keep_reserve(reserve)
    assert reserve.read_bytes() == whole
