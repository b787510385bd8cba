"""Processes: identifying one, and tying its life to its parent's."""

import ctypes
import os
import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from trainmark.spec.failures import STOPPED

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """Returns what identifies this process later, even if its PID is reused or the clock is set."""
    pid = os.getpid()
    started = {"host": socket.gethostname(), "pid": pid, "created_s": psutil.Process().create_time()}
    return {**started, **_since_boot(pid)}


def is_alive(record: dict[str, Any]) -> bool:
    """Whether the recorded process of this host still runs."""
    try:
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        now = _since_boot(record["pid"])
        if now and "start_ticks" in record:  # independent of the clock; records of earlier versions lack it
            return all(record[name] == value for name, value in now.items())
        return bool(abs(process.create_time() - record["created_s"]) < 1)
    except psutil.NoSuchProcess:
        return False


def _since_boot(pid: int) -> dict[str, Any]:
    """Returns the process's start time in clock ticks since boot; empty if unavailable."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return {"start_ticks": int(fields[19]), "boot_id": BOOT_ID.read_text().strip()}  # field 22 of proc_pid_stat(5)
    except (OSError, ValueError, IndexError):
        return {}


PR_SET_PDEATHSIG = 1
WATCH_S = 0.5


def exit_with_parent(parent: int, signum: int) -> None:
    """Has the kernel signal this process when `parent` exits; exits now if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # it died before we could ask for the signal
        os._exit(STOPPED)


def tied_to_us(program: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the command line of a program, given by path, so that it gets SIGTERM when this process exits."""
    # Not by preexec_fn, which is unsafe in a multithreaded process.
    return (sys.executable, "-P", "-m", "trainmark.machine.processes", str(os.getpid()), *program)


def exit_with_stdin() -> None:
    """Exits when the process at the other end of standard input does, whatever is between the two.

    For a process in a container, whose parent is the container's and may be in another PID namespace.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the container runtime is killed first
    if stat.S_ISFIFO(os.fstat(0).st_mode):  # some container runtimes close stdin
        threading.Thread(target=_exit_at_eof, name="input", daemon=True).start()


def _exit_at_eof() -> None:
    while os.read(0, 1):
        pass
    os._exit(STOPPED)


def exit_after_parent() -> None:
    """Exits soon after the parent process does.

    PDEATHSIG would fire when the parent *thread* ends, which may happen early in mpirun.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(STOPPED)


def main() -> None:
    """Executes the given program, tied to the parent whose PID comes first."""
    parent, *program = sys.argv[1:]
    exit_with_parent(int(parent), signal.SIGTERM)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
