"""One process at a time works on a run: it claims the folder, and others can see whether it still lives."""

import errno
import json
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainmark.machine.processes import is_alive, this_process
from trainmark.machine.storage import is_disk_full, no_space
from trainmark.spec.errors import RunFailedError, StorageError
from trainmark.spec.files import write_json
from trainmark.spec.run_folder import RunFolder

STOP_PATIENCE_S = 30.0
HEARTBEAT_S = 20.0
STALE_S = 120.0  # some heartbeats late: shared storage may show the newest one late


def is_being_worked_on(folder: RunFolder) -> bool:
    """Whether a launcher process runs this run now; no, where the claim cannot be read."""
    try:
        return _holder(folder, folder.newest_claim()) is not None
    except OSError:
        return False


@contextmanager
def claimed(folder: RunFolder) -> Iterator[None]:
    """Inside, no other process can work on the run; a claim whose process is gone does not hold."""
    try:
        claim = _claim(folder)
    except OSError as error:
        if is_disk_full(error):
            raise no_space(folder.path) from error
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise StorageError(
                f"Run {folder.run_id} cannot be claimed: the file system of {folder.path} has no hard links "
                f"({error.strerror}). Choose another --runs-dir, or copy the run to one that has them."
            ) from error
        raise StorageError(
            f"Run {folder.run_id} cannot be claimed: {error.strerror}. Make {folder.path} writable for you, or copy it "
            "to where you can write and resume the copy."
        ) from error
    ended = threading.Event()
    threading.Thread(target=_keep_fresh, args=(claim, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with suppress(OSError):
            os.truncate(claim, 0)  # it has ended; unlike any other mark, this needs no space


def _claim(folder: RunFolder) -> Path:
    """The claim that this process has got; raises if another one holds.

    Claims are numbered and never removed. Number n + 1 is taken by a process that has seen claim n ended or its process
    gone, and taken with link(), which fails if the name exists; over NFS the server decides that. So of several
    processes that see the same stale claim one alone gets the next number, and none can remove another's new claim.
    """
    own = {**this_process(), "folder": folder.identity()}
    number = folder.newest_claim()
    while True:
        if holder := _holder(folder, number):
            raise RunFailedError(
                f"Run {folder.run_id} is being worked on by process {holder['pid']} on {holder['host']}. Wait for it "
                f"or stop it; one that died on another host is noticed after {STALE_S:.0f} s."
            )
        number += 1
        if _take(folder.claim(number), own):
            return folder.claim(number)


def _take(claim: Path, own: dict[str, Any]) -> bool:
    """Whether the claim is ours; it appears with all its content, or not at all."""
    unique = claim.with_name(f".{claim.name}.{secrets.token_hex(8)}")
    write_json(unique, own)
    try:
        os.link(unique, claim)
    except FileExistsError:
        return unique.stat().st_nlink == 2  # an answer that was lost on NFS: the repeated call finds our own link
    finally:
        unique.unlink(missing_ok=True)
    return True


def _keep_fresh(claim: Path, ended: threading.Event) -> None:
    """Touches the claim now and then, so that other hosts can see that its process lives."""
    while not ended.wait(HEARTBEAT_S):
        with suppress(OSError):
            os.utime(claim)


def _holder(folder: RunFolder, number: int) -> dict[str, Any] | None:
    """The process of a claim, while it lives: seen on this host, believed on others while it keeps the claim fresh."""
    try:
        holder = json.loads(folder.claim(number).read_text())
        if not folder.is_owner_of(holder):  # copied along with the folder; its process works on the original
            return None
        if holder["host"] == socket.gethostname():
            return holder if is_alive(holder) else None
        # A time far ahead is no heartbeat either: a clock was wrong, or the file came from elsewhere.
        is_fresh = abs(_now_of_storage(folder) - folder.claim(number).stat().st_mtime) < STALE_S
        return holder if is_fresh else None
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):  # none, ended, or damaged
        return None


def _now_of_storage(folder: RunFolder) -> float:
    """The time by the clock that also stamped the claim; by our own where we may not write."""
    try:
        with tempfile.TemporaryFile(dir=folder.path) as probe:
            return os.fstat(probe.fileno()).st_mtime
    except OSError:
        return time.time()


def stop_claimant(folder: RunFolder) -> bool:
    """Whether a process held a claim on the run and was asked to end; it is waited for."""
    holder = _holder(folder, folder.newest_claim())
    if holder is None:
        return False
    if holder["host"] != socket.gethostname():
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {holder['pid']} on {holder['host']}. Cancel it there; "
            f"one that died is noticed after {STALE_S:.0f} s."
        )
    os.kill(holder["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_alive(holder) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_alive(holder):
        raise RunFailedError(
            f"Process {holder['pid']} was asked to end and still runs after {STOP_PATIENCE_S:.0f} s. Look at it with: "
            f"ps -o stat,wchan,cmd -p {holder['pid']}; a stopped one (T) goes on with kill -CONT."
        )
    return True
