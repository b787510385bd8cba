"""Processes that must not outlive the one that started them: the kernel is asked to see to it, or they watch for it."""

import ctypes
import os
import threading
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
WATCH_S = 0.5


def end_with_parent(parent: int, signum: int, gone_code: int) -> None:
    """The kernel sends this process the signal when `parent` ends; if it has ended already, so does this process."""
    _asker(parent, signum, gone_code)()


def ending_with_us(signum: int, gone_code: int) -> Callable[[], None]:
    """What a child runs between fork and exec, so that the program it becomes gets the signal when we end."""
    return _asker(os.getpid(), signum, gone_code)


def watch_parent(gone_code: int) -> None:
    """This process ends soon after the one that started it, which may be of any thread.

    The kernel's own signal would come when the *thread* ends that started this process, and mpirun's do that.
    """
    threading.Thread(target=_watch, args=(os.getppid(), gone_code), name="parent", daemon=True).start()


def _asker(parent: int, signum: int, gone_code: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl  # looked up before a fork: the child must not load anything

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signum)
        if os.getppid() != parent:  # it died before we could ask to be told
            os._exit(gone_code)

    return ask


def _watch(parent: int, gone_code: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(gone_code)
