"""CPU time of cores and processes from the kernel's counters, and what other processes took on a rank's cores."""

import math
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

STAT = Path("/proc/stat")
ALL_CORES = -1


class CpuTimes(NamedTuple):
    """Clock ticks of one or more cores since boot."""

    user: int
    system: int
    iowait: int
    steal: int
    idle: int


class CpuShares(NamedTuple):
    """Shares of the cores' time between two readings; the rest is idle."""

    user: float
    system: float
    iowait: float
    steal: float


def parse_cpu_times(text: str, cores: Collection[int]) -> dict[int, CpuTimes]:
    """Returns the times of `cores` in the text of /proc/stat, by core, and the sum over all as ALL_CORES."""
    times = {}
    for line in text.splitlines():
        name, _, counts = line.partition(" ")
        if not name.startswith("cpu"):  # per-core lines come first
            break
        core = int(name[3:] or ALL_CORES)
        if core == ALL_CORES or core in cores:
            # man 5 proc_stat; guest time is included in user and nice
            user, nice, system, idle, iowait, irq, softirq, steal = (int(count) for count in counts.split()[:8])
            times[core] = CpuTimes(user + nice, system + irq + softirq, iowait, steal, idle)
    return times


def read_cpu_times(cores: Collection[int], path: Path = STAT) -> dict[int, CpuTimes]:
    """Reads the times of `cores`, and the sum over all."""
    return parse_cpu_times(path.read_text(), cores)


def shares_between(before: dict[int, CpuTimes], after: dict[int, CpuTimes], cores: Collection[int]) -> CpuShares | None:
    """Returns how `cores` spent their time; None if no tick passed, or no core is in both readings."""
    both = [core for core in cores if core in before and core in after]
    # iowait may decrease (man 5 proc_stat).
    ticks = [sum(max(0, after[core][i] - before[core][i]) for core in both) for i in range(len(CpuTimes._fields))]
    total = sum(ticks)
    return CpuShares(*(count / total for count in ticks[:-1])) if total else None


PROC = "/proc"


class ProcessUsage(NamedTuple):
    """Sum over processes; shared memory is counted in each."""

    cpu_s: float
    resident_bytes: int
    processes: int


def parse_process(text: str) -> tuple[int, int]:
    """Returns the clock ticks of a process and its reaped children, and its resident pages."""
    fields = text.rpartition(")")[2].split()  # the command name in parentheses may contain anything
    # Counted from 1 over the whole line (man 5 proc_pid_stat): 14 to 17 are times, 24 is rss; 3 is the first here.
    return sum(int(field) for field in fields[11:15]), int(fields[21])


def read_processes(pids: Iterable[int], proc: str = PROC) -> ProcessUsage:
    """Returns the usage of these processes and their descendants; those that exited count as zero."""
    return _read_all(_with_children(pids, proc), proc)


def read_children(pid: int, proc: str = PROC) -> ProcessUsage:
    """Returns the usage of a process's descendants, without itself."""
    return _read_all((child for child in _with_children([pid], proc) if child != pid), proc)


def _read_all(pids: Iterable[int], proc: str) -> ProcessUsage:
    ticks = pages = count = 0
    for pid in pids:
        if text := _read(f"{proc}/{pid}/stat"):
            more_ticks, more_pages = parse_process(text)
            ticks, pages, count = ticks + more_ticks, pages + more_pages, count + 1
    return ProcessUsage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"), count)


def _with_children(pids: Iterable[int], proc: str) -> Iterator[int]:
    """Yields the processes and their descendants; scanning all of /proc would be expensive on a large node."""
    for pid in pids:
        yield pid
        # Only children of the main thread, which starts the data-loading processes.
        yield from _with_children([int(child) for child in _read(f"{proc}/{pid}/task/{pid}/children").split()], proc)


def _read(path: str) -> str:
    """Returns the text of a file; empty if the process has exited."""
    try:
        with open(path) as file:  # noqa: PTH123  read every second: creating a Path takes longer than reading the file
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Counts(NamedTuple):
    at_s: float
    own_s: float
    cores: dict[int, CpuTimes]


class CoreWatch:
    """Compares the busy time of this process's cores with the CPU time of the process and its children."""

    def __init__(self) -> None:
        self._cores = sorted(os.sched_getaffinity(0))
        self.unwatched: str | None = None  # why load by others is unknown
        self._counts = self._count()

    @property
    def num_cores(self) -> int:
        """Cores in this process's affinity mask."""
        return len(self._cores)

    def read(self) -> dict[str, Any]:
        """Returns, since the last reading, `over_s` and `others_s`, the CPU time of other processes; None: unknown."""
        before, self._counts = self._counts, self._count()
        after = self._counts
        over_s = after.at_s - before.at_s
        busy_s, steal_s = _used_between(before.cores, after.cores)
        own_s = after.own_s - before.own_s
        if self.unwatched is None and busy_s + resolution_s(self.num_cores) < 0.5 * own_s:
            self.unwatched = (
                f"/proc/stat shows {busy_s:.2f} s of CPU time on cores where this process alone used {own_s:.2f} s"
            )
        others_s = None if self.unwatched else round(max(0.0, busy_s - own_s) + steal_s, 6)
        return {"over_s": round(over_s, 6), "others_s": others_s}

    def _count(self) -> _Counts:
        cores: dict[int, CpuTimes] = {}
        try:
            cores = read_cpu_times(self._cores)
        except (OSError, ValueError) as error:
            self.unwatched = f"/proc/stat is unreadable: {type(error).__name__}: {error}"
        if self.unwatched is None and not set(self._cores) <= set(cores):
            self.unwatched = "/proc/stat does not list the cores of this process"
        ended = os.times()
        own_s = time.process_time() + ended.children_user + ended.children_system + read_children(os.getpid()).cpu_s
        return _Counts(time.monotonic(), own_s, {core: cores[core] for core in self._cores if core in cores})


def resolution_s(num_cores: int, tick_s: float = CLOCK_TICK_S) -> float:
    """Returns the error of readings over several cores: a tick at either end, and one per core, which mostly cancel."""
    return (2 + math.sqrt(num_cores)) * tick_s


def _used_between(before: dict[int, CpuTimes], after: dict[int, CpuTimes]) -> tuple[float, float]:
    """Returns the cores' busy and stolen time in seconds."""
    both = before.keys() & after.keys()
    busy = sum(after[core].user + after[core].system - before[core].user - before[core].system for core in both)
    steal = sum(max(0, after[core].steal - before[core].steal) for core in both)
    return busy * CLOCK_TICK_S, steal * CLOCK_TICK_S
