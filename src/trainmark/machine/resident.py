"""Memory of this process as the kernel counts it: its limit, and its peak over any part of its life."""

import resource
from collections.abc import Callable
from pathlib import Path

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
RESET_PEAK = "5"  # of the resident set, see proc(5)


def limit_memory(gib: float) -> None:
    """Makes allocations fail that would take this process above `gib` GiB of private memory; readers inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = round(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def peak_resident_bytes() -> int:
    """The peak of the resident set since the process began, or since it was reset."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def take_peak_resident_bytes() -> int:
    """The peak of the resident set since the last call; raises OSError if the kernel does not let it be reset."""
    peak = peak_resident_bytes()
    CLEAR.write_text(RESET_PEAK)
    return peak


class PeakMeter:
    """Peaks of consecutive intervals, and the largest of all; `take` returns the peak since it was called last."""

    def __init__(self, where: str, take: Callable[[], int]) -> None:
        self.where = where
        self.largest_bytes: int | None = None
        self.reason: str | None = None
        self._take = take

    def read(self) -> int | None:
        """The peak since the last reading; None if there is none, for the stated reason."""
        if self.reason is not None:
            return None
        try:
            peak = self._take()
        except (OSError, StopIteration) as error:
            self.reason = f"the kernel does not reset the peak of a process ({type(error).__name__}: {error})"
            return None
        self.largest_bytes = max(peak, self.largest_bytes or 0)
        return peak
