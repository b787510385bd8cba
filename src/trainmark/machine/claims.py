"""Claims on run folders: one process at a time works on a run, and others see whether it is alive."""

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
from trainmark.spec.files import remove_leftovers, write_json
from trainmark.spec.run_folder import RunFolder

STOP_TIMEOUT_S = 30.0
HEARTBEAT_S = 20.0
STALE_S = 120.0  # several heartbeats: file attributes on shared storage may be cached


def has_live_claim(folder: RunFolder) -> bool:
    """Whether a live process works on this run; False if the claim is unreadable."""
    try:
        return _holder(folder, folder.newest_claim()) is not None
    except OSError:
        return False


@contextmanager
def claimed(folder: RunFolder, what: str = "Run") -> Iterator[None]:
    """Holds the claim of a run or study, so that no other process works on it; claims of dead processes are stale."""
    try:
        claim = _claim(folder, what)
    except OSError as error:
        if is_disk_full(error):
            raise no_space(folder.path) from error
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise StorageError(
                f"{what} {folder.run_id} cannot be claimed: the file system of {folder.path} does not support hard "
                f"links ({error.strerror}). Choose another --runs-dir, or copy the folder to one that does."
            ) from error
        raise StorageError(
            f"{what} {folder.run_id} cannot be claimed: {error.strerror}. Make {folder.path} writable, or copy it to a "
            "writable folder and resume the copy."
        ) from error
    remove_leftovers(claim.parent, older_than_s=STALE_S)  # younger ones may be of a process that claims just now
    ended = threading.Event()
    threading.Thread(target=_keep_fresh, args=(claim, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with suppress(OSError):
            os.truncate(claim, 0)  # marks the claim as released, even on a full disk


def _claim(folder: RunFolder, what: str) -> Path:
    """Takes the next claim; raises if another process holds the run.

    Claims are numbered and never removed. A process takes claim n + 1 once claim n is released or stale, by link(),
    which fails if the name exists; on NFS the server decides. So of several processes that see the same stale claim
    only one gets the next number, and none can remove another's new claim.
    """
    content = {**this_process(), "folder": folder.identity()}
    number = folder.newest_claim()
    while True:
        if holder := _holder(folder, number):
            raise RunFailedError(
                f"{what} {folder.run_id} is being worked on by process {holder['pid']} on {holder['host']}. Wait for "
                f"it or stop it; a claim of a dead process on another host expires after {STALE_S:.0f} s."
            )
        number += 1
        if _take(folder.claim(number), content):
            return folder.claim(number)


def _take(claim: Path, content: dict[str, Any]) -> bool:
    """Creates the claim atomically; returns whether this process got it."""
    unique = claim.with_name(f".{claim.name}.{secrets.token_hex(8)}")
    write_json(unique, content)
    try:
        os.link(unique, claim)
    except FileExistsError:
        return unique.stat().st_nlink == 2  # a lost NFS reply: the retried call finds the link it made itself
    finally:
        unique.unlink(missing_ok=True)
    return True


def _keep_fresh(claim: Path, ended: threading.Event) -> None:
    """Heartbeat: touches the claim, so that other hosts see that its process is alive."""
    while not ended.wait(HEARTBEAT_S):
        with suppress(OSError):
            os.utime(claim)


def _holder(folder: RunFolder, number: int) -> dict[str, Any] | None:
    """Returns the live process of a claim: checked directly on this host, by its heartbeat on others."""
    try:
        holder = json.loads(folder.claim(number).read_text())
        if not folder.is_owner_of(holder):  # copied with the folder; its process works on the original
            return None
        if holder["host"] == socket.gethostname():
            return holder if is_alive(holder) else None
        # A time far in the future is no heartbeat either: clock skew, or a copied file.
        is_fresh = abs(_storage_time(folder) - folder.claim(number).stat().st_mtime) < STALE_S
        return holder if is_fresh else None
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):  # missing, released or damaged
        return None


def _storage_time(folder: RunFolder) -> float:
    """Returns the storage server's time, which also stamps claims; the local time if the folder is read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder.path) as probe:
            return os.fstat(probe.fileno()).st_mtime
    except OSError:
        return time.time()


def stop_claim_holder(folder: RunFolder) -> bool:
    """Sends SIGTERM to the process that holds the claim and waits for its end; returns whether there was one."""
    holder = _holder(folder, folder.newest_claim())
    if holder is None:
        return False
    if holder["host"] != socket.gethostname():
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {holder['pid']} on {holder['host']}. Cancel it there; "
            f"a claim of a dead process expires after {STALE_S:.0f} s."
        )
    os.kill(holder["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_alive(holder) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_alive(holder):
        raise RunFailedError(
            f"Process {holder['pid']} is still running {STOP_TIMEOUT_S:.0f} s after SIGTERM. Inspect it with: "
            f"ps -o stat,wchan,cmd -p {holder['pid']}; if it is stopped (T), continue it with kill -CONT."
        )
    return True
