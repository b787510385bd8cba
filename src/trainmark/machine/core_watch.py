"""CoreWatch: how much of its cores' time a process did not get, because others or the hypervisor took it."""

import math
import os
import time
from typing import Any, NamedTuple

from trainmark.machine.cpu_times import CpuTimes, read_cpu_times
from trainmark.machine.process_usage import read_children

CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Counts(NamedTuple):
    at_s: float
    own_s: float
    cores: dict[int, CpuTimes]


class CoreWatch:
    """Compares the kernel's count of this process's cores with what the process and its children used of them."""

    def __init__(self) -> None:
        self._cores = sorted(os.sched_getaffinity(0))
        self.unwatched: str | None = None  # why nothing can be said, if so
        self._counts = self._count()

    @property
    def num_cores(self) -> int:
        """The cores that this process may use."""
        return len(self._cores)

    def read(self) -> dict[str, Any]:
        """Since the last reading: `over_s`, and `others_s`, the processor time that others took; None: not watched."""
        before, self._counts = self._counts, self._count()
        after = self._counts
        over_s = after.at_s - before.at_s
        busy_s, steal_s = _used_between(before.cores, after.cores)
        own_s = after.own_s - before.own_s
        if self.unwatched is None and busy_s + resolution_s(self.num_cores) < 0.5 * own_s:
            self.unwatched = (
                f"/proc/stat shows {busy_s:.2f} s of work on cores on which this process alone worked {own_s:.2f} s"
            )
        others_s = None if self.unwatched else round(max(0.0, busy_s - own_s) + steal_s, 6)
        return {"over_s": round(over_s, 6), "others_s": others_s}

    def _count(self) -> _Counts:
        cores: dict[int, CpuTimes] = {}
        try:
            cores = read_cpu_times(self._cores)
        except (OSError, ValueError) as error:
            self.unwatched = f"/proc/stat cannot be read: {type(error).__name__}: {error}"
        if self.unwatched is None and not set(self._cores) <= set(cores):
            self.unwatched = "/proc/stat does not list the cores of this process"
        ended = os.times()
        own_s = time.process_time() + ended.children_user + ended.children_system + read_children(os.getpid()).cpu_s
        return _Counts(time.monotonic(), own_s, {core: cores[core] for core in self._cores if core in cores})


def resolution_s(num_cores: int, tick_s: float = CLOCK_TICK_S) -> float:
    """What counts of several cores may be off: a tick at either end, and one per core, of which most cancel out."""
    return (2 + math.sqrt(num_cores)) * tick_s


def _used_between(before: dict[int, CpuTimes], after: dict[int, CpuTimes]) -> tuple[float, float]:
    """Seconds in which the cores were busy, and in which the hypervisor had taken them."""
    both = before.keys() & after.keys()
    busy = sum(after[core].user + after[core].system - before[core].user - before[core].system for core in both)
    steal = sum(max(0, after[core].steal - before[core].steal) for core in both)
    return busy * CLOCK_TICK_S, steal * CLOCK_TICK_S
