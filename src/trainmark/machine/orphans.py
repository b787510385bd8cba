"""Processes that must not outlive the one that started them: the kernel is asked to see to it, or they watch for it."""

import ctypes
import os
import signal
import stat
import sys
import threading
import time

from trainmark.spec.exit_codes import STOPPED

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
    return (sys.executable, "-P", "-m", "trainmark.machine.orphans", str(os.getpid()), *program)


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
