"""Processes that later ones can find and end, even if PIDs are reused."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

# Daemons must not inherit the environment of the cluster's starter.
DAEMON_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def start(
    folder: Path,
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    stdin: int | None = None,
) -> None:
    """Starts a process in its own session and records it in the folder; its output goes to the log."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        pid = os.posix_spawnp(
            command[0],
            list(command),
            {"PATH": DAEMON_PATH, **environment},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, empty if stdin is None else stdin, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
        os.close(empty)
    # PID and start time identify a process until reboot.
    (folder / name).write_text(f"{pid} {psutil.Process(pid).create_time()!r}\n")


def find(folder: Path, name: str) -> psutil.Process | None:
    """Returns the recorded process of that name; None if it has ended."""
    try:
        pid, created = (folder / name).read_text().split()
        process = psutil.Process(int(pid))
        is_same = process.create_time() == float(created)
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return process if is_same and not has_ended(process) else None


def has_ended(process: psutil.Process) -> bool:
    """Whether a process is gone or a zombie; reaps children of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def end(folder: Path, name: str, signal_number: int = signal.SIGKILL, timeout_s: float = 20) -> None:
    """Signals the recorded process of that name, waits for the end of its process tree, and removes the record."""
    process = find(folder, name)
    if process is not None:
        try:
            below = process.children(recursive=True)
            process.send_signal(signal_number)
        except psutil.NoSuchProcess:
            below = []
        if not wait_for_end([process], timeout_s):
            kill(process)
        # A node's processes die with its init process; slurmctld may leave children behind.
        for child in below:
            if not has_ended(child):
                kill(child)
        if not wait_for_end([process, *below], timeout_s):
            raise RuntimeError(f"Process {process.pid} ({name}) or one below it did not end in {timeout_s} s.")
    (folder / name).unlink(missing_ok=True)


def kill(process: psutil.Process) -> None:
    """Kills a process, unless it has just ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def wait_for_end(ending: Sequence[psutil.Process], timeout_s: float) -> bool:
    """Whether all of the processes ended in time."""
    deadline = time.monotonic() + timeout_s
    while not all(has_ended(process) for process in ending):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def kill_all(folder: Path) -> None:
    """Kills every recorded process."""
    if folder.is_dir():
        for record in sorted(folder.iterdir()):
            end(folder, record.name)
