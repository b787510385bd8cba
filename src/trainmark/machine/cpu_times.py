"""What the cores of this node were busy with, from the kernel's own count of their time (/proc/stat)."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

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
