"""Where the processes of a command that does not end are, so that a hang which is seen once can be explained."""

import faulthandler
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

SPEAK = signal.SIGUSR1
TIME_TO_SPEAK_S = 1.0


def be_ready_to_speak() -> None:
    """This process, and all that it forks, print the stacks of their threads when they are asked."""
    faulthandler.register(SPEAK)


def last_words(pid: int, folder: Path) -> str:
    """The stacks of all processes under `pid`, from the logs of runs in `folder`; its own go to its standard error."""
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        with suppress(ProcessLookupError):
            os.kill(each.pid, SPEAK)
    time.sleep(TIME_TO_SPEAK_S)
    logs = sorted(folder.glob("runs/*/jobs/*/attempt-*/rank-*.log"))
    return "\n".join(f"--- {log.relative_to(folder)}\n{log.read_text()}" for log in logs)
