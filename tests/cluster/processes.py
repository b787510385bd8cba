"""Start processes that any later process can find and end, even when process numbers were used again."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

DAEMON_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def start(
    folder: Path,
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    stdin: int | None = None,
) -> psutil.Process:
    """A new process in a session of its own, recorded in the folder under the name; its output goes to the log."""
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
    process = psutil.Process(pid)
    # Number and start time together name a process for as long as the machine runs.
    (folder / name).write_text(f"{pid} {process.create_time()!r}\n")
    return process


def find(folder: Path, name: str) -> psutil.Process | None:
    """The recorded process of that name if it still lives, otherwise None."""
    try:
        pid, created = (folder / name).read_text().split()
        process = psutil.Process(int(pid))
        if process.create_time() != float(created) or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return process


def end(folder: Path, name: str, signal_number: int = signal.SIGKILL, patience_s: float = 10) -> None:
    """Signals the recorded process of that name and its children, waits for its end, and forgets it."""
    process = find(folder, name)
    if process is not None:
        try:
            # A node's first process is the child of `unshare`; with it the kernel ends everything of the node.
            for child in process.children():
                child.send_signal(signal_number)
            process.send_signal(signal_number)
            process.wait(patience_s)
        except psutil.NoSuchProcess:
            pass
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(patience_s)
    (folder / name).unlink(missing_ok=True)


def kill_all(folder: Path) -> None:
    """Ends every recorded process at once."""
    if folder.is_dir():
        for record in sorted(folder.iterdir()):
            end(folder, record.name)
