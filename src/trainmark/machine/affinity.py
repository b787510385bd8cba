"""Pinning a rank to its cores, and checking that it really runs there."""

import os
from pathlib import Path
from typing import Any

from trainmark.spec.errors import PlanError
from trainmark.spec.units import show_cores


def pin_to(cores: tuple[int, ...]) -> None:
    """This process, and all threads it starts from now on, may run on `cores` alone."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        allowed = show_cores(tuple(os.sched_getaffinity(0)))
        raise PlanError(
            f"Cannot run on cores {show_cores(cores)}: this process may use {allowed} ({error.strerror}). "
            "Plan with the cores of this job, or ask the scheduler for more."
        ) from error


def check_affinity(cores: tuple[int, ...], threads: int, threads_running: int) -> dict[str, Any]:
    """What was asked, what is so, and whether they agree: the cores that any thread may use, and the thread count."""
    allowed = set(os.sched_getaffinity(0))
    for task in Path("/proc/self/task").iterdir():
        try:
            allowed |= os.sched_getaffinity(int(task.name))
        except ProcessLookupError:  # a thread that ended while we looked
            continue
    return {
        "cores_asked": show_cores(cores),
        "cores_allowed": show_cores(tuple(allowed)),
        "threads_asked": threads,
        "threads_running": threads_running,
        "verified": allowed == set(cores) and threads == threads_running,
    }
