"""What cores and processes were busy with, from the kernel's counts, and what others took of a rank's cores."""

import math
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

STAT = Path("/proc/stat")
ALL_CORES = -1


class CpuTimes(NamedTuple):
    """Clock ticks of one or several cores since the machine was started."""

    user: int
    system: int
    iowait: int
    steal: int
    idle: int


class CpuShares(NamedTuple):
    """Shares of the cores' time between two counts; what is left to 1 they were idle."""

    user: float
    system: float
    iowait: float
    steal: float


def parse_cpu_times(text: str, cores: Collection[int]) -> dict[int, CpuTimes]:
    """The times of `cores` in the text of /proc/stat, by the core's number, and the sum of all as ALL_CORES."""
    times = {}
    for line in text.splitlines():
        name, _, counts = line.partition(" ")
        if not name.startswith("cpu"):  # the lines of the cores come first
            break
        core = int(name[3:] or ALL_CORES)
        if core == ALL_CORES or core in cores:
            # man 5 proc_stat; a guest's time is inside user and nice as well
            user, nice, system, idle, iowait, irq, softirq, steal = (int(count) for count in counts.split()[:8])
            times[core] = CpuTimes(user + nice, system + irq + softirq, iowait, steal, idle)
    return times


def read_cpu_times(cores: Collection[int], path: Path = STAT) -> dict[int, CpuTimes]:
    """The times of `cores` now, and the sum of all."""
    return parse_cpu_times(path.read_text(), cores)


def shares_between(before: dict[int, CpuTimes], after: dict[int, CpuTimes], cores: Collection[int]) -> CpuShares | None:
    """What `cores` together were busy with; None where no tick passed, or none of them was counted both times."""
    both = [core for core in cores if core in before and core in after]
    # The kernel's iowait may go back a little (man 5 proc_stat): never below nothing.
    ticks = [sum(max(0, after[core][i] - before[core][i]) for core in both) for i in range(len(CpuTimes._fields))]
    total = sum(ticks)
    return CpuShares(*(count / total for count in ticks[:-1])) if total else None


PROC = "/proc"


class ProcessUsage(NamedTuple):
    """Some processes together. Memory that they share is counted for each of them."""

    cpu_s: float
    resident_bytes: int
    processes: int


def parse_process(text: str) -> tuple[int, int]:
    """Clock ticks that a process and its ended children have computed, and its resident pages."""
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    # Counted from 1 over the whole line (man 5 proc_pid_stat): 14 to 17 are times, 24 is rss; 3 is the first here.
    return sum(int(field) for field in fields[11:15]), int(fields[21])


def read_processes(pids: Iterable[int], proc: str = PROC) -> ProcessUsage:
    """What these processes and all that they started use; those that have ended use nothing."""
    return _read_all(_with_children(pids, proc), proc)


def read_children(pid: int, proc: str = PROC) -> ProcessUsage:
    """What all processes use that this one has started, without itself."""
    return _read_all((child for child in _with_children([pid], proc) if child != pid), proc)


def _read_all(pids: Iterable[int], proc: str) -> ProcessUsage:
    ticks = pages = count = 0
    for pid in pids:
        if text := _read(f"{proc}/{pid}/stat"):
            more_ticks, more_pages = parse_process(text)
            ticks, pages, count = ticks + more_ticks, pages + more_pages, count + 1
    return ProcessUsage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"), count)


def _with_children(pids: Iterable[int], proc: str) -> Iterator[int]:
    """The processes, their children, and theirs; looking through all of /proc would be dear on a large node."""
    for pid in pids:
        yield pid
        # Only what the main thread started: so are the processes that read data.
        yield from _with_children([int(child) for child in _read(f"{proc}/{pid}/task/{pid}/children").split()], proc)


def _read(path: str) -> str:
    """The text of a file; nothing where the process has ended."""
    try:
        with open(path) as file:  # noqa: PTH123  read every second: a Path takes longer to make than the file to read
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Counts(NamedTuple):
    at_s: float
    own_s: float
    cores: dict[int, CpuTimes]


class CoreWatch:
    """Compares the kernel's count of this process's cores with what the process and its children used of them."""

    def __init__(self) -> None:
        self._cores = sorted(os.sched_getaffinity(0))
        self.no_progress: str | None = None  # why nothing can be said, if so
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
        if self.no_progress is None and busy_s + resolution_s(self.num_cores) < 0.5 * own_s:
            self.no_progress = (
                f"/proc/stat shows {busy_s:.2f} s of work on cores on which this process alone worked {own_s:.2f} s"
            )
        others_s = None if self.no_progress else round(max(0.0, busy_s - own_s) + steal_s, 6)
        return {"over_s": round(over_s, 6), "others_s": others_s}

    def _count(self) -> _Counts:
        cores: dict[int, CpuTimes] = {}
        try:
            cores = read_cpu_times(self._cores)
        except (OSError, ValueError) as error:
            self.no_progress = f"/proc/stat cannot be read: {type(error).__name__}: {error}"
        if self.no_progress is None and not set(self._cores) <= set(cores):
            self.no_progress = "/proc/stat does not list the cores of this process"
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
