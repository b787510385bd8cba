"""Processes: which one works on something, which must not outlive their parent, and asking them to end."""

import ctypes
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from trainmark.spec.errors import InterruptedRunError
from trainmark.spec.failures import STOPPED

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """Enough to recognise this process later, even if its number is used again and the clock is set meanwhile."""
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
        if now and "start_ticks" in record:  # moves with no clock; records of earlier versions lack it
            return all(record[name] == value for name, value in now.items())
        return bool(abs(process.create_time() - record["created_s"]) < 1)
    except psutil.NoSuchProcess:
        return False


def _since_boot(pid: int) -> dict[str, Any]:
    """When the process started, in clock ticks since this boot; nothing where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return {"start_ticks": int(fields[19]), "boot_id": BOOT_ID.read_text().strip()}  # field 22 of proc_pid_stat(5)
    except (OSError, ValueError, IndexError):
        return {}


PR_SET_PDEATHSIG = 1
WATCH_S = 0.5


def end_with_parent(parent: int, signum: int) -> None:
    """The kernel sends this process the signal when `parent` ends; if it has ended already, so does this process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # it died before we could ask for the signal
        os._exit(STOPPED)


def ending_with_us(program: tuple[str, ...]) -> tuple[str, ...]:
    """The words that start a program, by its path, so that it gets SIGTERM when this process ends."""
    # Not by code between fork and exec, which is not safe in a process with threads.
    return (sys.executable, "-P", "-m", "trainmark.machine.processes", str(os.getpid()), *program)


def end_with_input() -> None:
    """This process ends with the one that holds the other end of its standard input, whatever is between the two.

    For a process in a container: its parent is the container's, and may be of another namespace of process numbers.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the container's program is killed first
    if stat.S_ISFIFO(os.fstat(0).st_mode):  # some containers give their programs no input
        threading.Thread(target=_read_to_end, name="input", daemon=True).start()


def _read_to_end() -> None:
    while os.read(0, 1):
        pass
    os._exit(STOPPED)


def watch_parent() -> None:
    """This process ends soon after the one that started it, whichever thread of that did.

    The kernel's own signal would come when the *thread* ends that started this process, and mpirun's may do so.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(STOPPED)


def main() -> None:
    """Becomes the program that the words name, after the number of the process to end with."""
    parent, *program = sys.argv[1:]
    end_with_parent(int(parent), signal.SIGTERM)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable(outcome: str) -> Iterator[None]:
    """Inside, the first such signal raises InterruptedRunError, which says the outcome; further ones are ignored."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"Stopped by {signal.Signals(signum).name}{outcome}")

    # A signal that is ignored already stays so: under nohup a process outlives its terminal.
    heeded = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, on_signal) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
