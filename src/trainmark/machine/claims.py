"""One process at a time works on a run: it claims the folder, and others can see whether it still lives."""

import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainmark.machine.process import is_alive, this_process
from trainmark.spec.errors import RunFailedError
from trainmark.spec.run_folder import RunFolder

STOP_PATIENCE_S = 30.0
HEARTBEAT_S = 20.0
STALE_S = 120.0  # some heartbeats late: shared storage may show the newest one late


def is_being_worked_on(folder: RunFolder) -> bool:
    """Whether a launcher process runs this run now."""
    claim = _read_claim(folder)
    return claim is not None and _is_held(folder, claim)


@contextmanager
def claimed(folder: RunFolder) -> Iterator[None]:
    """Inside, no other process can work on the run; a claim whose process is gone is taken over."""
    claim = _read_claim(folder)
    if claim is not None and not _is_held(folder, claim):
        folder.launcher.unlink(missing_ok=True)
    try:
        descriptor = os.open(folder.launcher, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        owner = _read_claim(folder) or {"pid": "unknown", "host": "unknown"}
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {owner['pid']} on {owner['host']}. Wait for it or stop "
            f"it; one that died on another host is noticed after {STALE_S:.0f} s."
        ) from None
    with os.fdopen(descriptor, "w") as file:
        json.dump(this_process(), file)
    ended = threading.Event()
    threading.Thread(target=_keep_fresh, args=(folder.launcher, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        folder.launcher.unlink(missing_ok=True)


def _keep_fresh(path: Path, ended: threading.Event) -> None:
    """Touches the claim now and then, so that other hosts can see that its process lives."""
    while not ended.wait(HEARTBEAT_S):
        with suppress(OSError):
            os.utime(path)


def _is_held(folder: RunFolder, claim: dict[str, Any]) -> bool:
    """Whether the claim's process lives: seen on this host, believed on others while it keeps the claim fresh."""
    if claim["host"] == socket.gethostname():
        return is_alive(claim)
    try:
        return _now_of_storage(folder) - folder.launcher.stat().st_mtime < STALE_S
    except FileNotFoundError:
        return False


def _now_of_storage(folder: RunFolder) -> float:
    """The time by the clock that also stamped the claim; by our own where we may not write."""
    try:
        with tempfile.TemporaryFile(dir=folder.path) as probe:
            return os.fstat(probe.fileno()).st_mtime
    except OSError:
        return time.time()


def stop_worker(folder: RunFolder) -> bool:
    """Whether a process worked on the run and was told to end; it is waited for."""
    claim = _read_claim(folder)
    if claim is None or not _is_held(folder, claim):
        return False
    if claim["host"] != socket.gethostname():
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {claim['pid']} on {claim['host']}. Cancel it there; "
            f"one that died is noticed after {STALE_S:.0f} s."
        )
    os.kill(claim["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_alive(claim) and time.monotonic() < deadline:
        time.sleep(0.05)
    return True


def _read_claim(folder: RunFolder) -> dict[str, Any] | None:
    try:
        claim = json.loads(folder.launcher.read_text())
    except (FileNotFoundError, ValueError):  # gone, or being written this very moment
        return None
    return claim if isinstance(claim, dict) and {"host", "pid", "created_s"} <= claim.keys() else None
