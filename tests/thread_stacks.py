"""Stack traces of a command's processes, to explain a hang that is hard to reproduce."""

import faulthandler
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

DUMP_SIGNAL = signal.SIGUSR1
DUMP_S = 1.0


def register_stack_dump() -> None:
    """Makes this process and its forks dump their threads' stacks on a signal."""
    faulthandler.register(DUMP_SIGNAL)


def dump_stacks(pid: int, folder: Path) -> str:
    """Returns the stacks of `pid`'s descendants, from the rank logs in `folder`; its own go to its stderr."""
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        with suppress(ProcessLookupError):
            os.kill(each.pid, DUMP_SIGNAL)
    time.sleep(DUMP_S)
    logs = sorted(folder.glob("runs/*/jobs/*/attempt-*/rank-*.log"))
    return "\n".join(f"--- {log.relative_to(folder)}\n{log.read_text()}" for log in logs)
