"""One process at a time works on a run: it claims the folder, and others can see whether it still lives."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainmark.machine.process import is_alive, this_process
from trainmark.spec.errors import RunFailedError
from trainmark.spec.run_folder import RunFolder

STOP_PATIENCE_S = 30.0


def is_being_worked_on(folder: RunFolder) -> bool:
    """Whether a launcher process runs this run now."""
    claim = _read_claim(folder)
    return claim is not None and is_alive(claim)


@contextmanager
def claimed(folder: RunFolder) -> Iterator[None]:
    """Inside, no other process can work on the run; a claim whose process is gone is taken over."""
    claim = _read_claim(folder)
    if claim is not None and not is_alive(claim):
        folder.launcher.unlink(missing_ok=True)
    try:
        descriptor = os.open(folder.launcher, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        owner = _read_claim(folder) or {"pid": "unknown", "host": "unknown"}
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {owner['pid']} on {owner['host']}. Wait for it or stop "
            f"it; if it is long gone, remove {folder.launcher}."
        ) from None
    with os.fdopen(descriptor, "w") as file:
        json.dump(this_process(), file)
    try:
        yield
    finally:
        folder.launcher.unlink(missing_ok=True)


def stop_worker(folder: RunFolder) -> bool:
    """Whether a process worked on the run and was told to end; it is waited for."""
    claim = _read_claim(folder)
    if claim is None or not is_alive(claim):
        return False
    if claim["host"] != socket.gethostname():
        raise RunFailedError(
            f"Run {folder.run_id} is being worked on by process {claim['pid']} on {claim['host']}. Cancel it there; if "
            f"that process is long gone, remove {folder.launcher}."
        )
    os.kill(claim["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_alive(claim) and time.monotonic() < deadline:
        time.sleep(0.05)
    return True


def _read_claim(folder: RunFolder) -> dict[str, Any] | None:
    try:
        claim: dict[str, Any] = json.loads(folder.launcher.read_text())
    except (FileNotFoundError, ValueError):  # gone, or being written this very moment
        return None
    return claim
