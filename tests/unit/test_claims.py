"""One process at a time works on a run, and others can tell whether it still does."""

import json
import os
import time
from pathlib import Path

import pytest

from trainmark.machine import claims
from trainmark.spec.errors import RunFailedError
from trainmark.spec.run_folder import RunFolder

ELSEWHERE = {"host": "no-such-host", "pid": 1, "created_s": 0.0}


def claim_of_another_host(folder: RunFolder, age_s: float) -> None:
    folder.launcher.write_text(json.dumps(ELSEWHERE))
    then = time.time() - age_s
    os.utime(folder.launcher, (then, then))


def test_a_claim_of_another_host_holds_while_it_is_kept_fresh(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    claim_of_another_host(folder, age_s=60)
    assert claims.is_being_worked_on(folder)
    with pytest.raises(RunFailedError, match="process 1 on no-such-host"), claims.claimed(folder):
        pass
    with pytest.raises(RunFailedError, match="Cancel it there"):
        claims.stop_worker(folder)


def test_a_claim_of_another_host_that_nobody_keeps_fresh_is_taken_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    claim_of_another_host(folder, age_s=200)
    assert not claims.is_being_worked_on(folder)
    assert not claims.stop_worker(folder)
    with claims.claimed(folder):
        assert json.loads(folder.launcher.read_text())["pid"] == os.getpid()
    assert not folder.launcher.exists()


def test_a_claim_is_kept_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_S", 0.02)
    folder = RunFolder(tmp_path)
    with claims.claimed(folder):
        os.utime(folder.launcher, (0, 0))
        deadline = time.monotonic() + 10
        while folder.launcher.stat().st_mtime < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert folder.launcher.stat().st_mtime > 1
