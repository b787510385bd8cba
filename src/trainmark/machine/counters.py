"""Hardware counters of this process and its threads in user space, by the kernel's perf_event_open."""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from trainmark.machine.topology import read_topology
from trainmark.spec.machine_events import Counters

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}  # perf_event_open, by architecture
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
TASKS = Path("/proc/self/task")

# linux/perf_event.h: struct perf_event_attr as of its first version, and its flags.
ATTRIBUTES = struct.Struct("IIQQQQQIIQ")
DISABLED, INHERITED, NO_KERNEL, NO_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
TIMES = 0b11  # read_format: how long the counter was enabled, and how long it had a register
ENABLE, DISABLE = 0x2400, 0x2401
CLOSE_ON_EXEC = 1 << 3
HARDWARE_TYPE, SOFTWARE_TYPE = 0, 1


class Kind(NamedTuple):
    """What is counted, by the kernel's numbers."""

    name: str
    type: int
    config: int


INSTRUCTIONS = Kind("instructions", HARDWARE_TYPE, 1)
CYCLES = Kind("cycles", HARDWARE_TYPE, 0)
CACHE_MISSES = Kind("cache_misses", HARDWARE_TYPE, 3)  # of the last level, on Intel and most Arm processors
TASK_CLOCK_NS = Kind("task_clock_ns", SOFTWARE_TYPE, 1)
PAGE_FAULTS = Kind("page_faults", SOFTWARE_TYPE, 2)
OF_TRAINING = (INSTRUCTIONS, CYCLES, CACHE_MISSES)


class Counting:
    """Open counters; they run from `resume` to `pause`, as often as wanted."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.reasons: dict[str, str] = {}  # why a kind is not counted
        self._files: dict[str, list[int]] = {}
        threads = sorted(int(task.name) for task in TASKS.iterdir()) if TASKS.is_dir() else [0]
        for kind in kinds:
            files, reason = _open_all(kind, threads)
            self._files[kind.name] = files
            if reason:
                self.reasons[kind.name] = reason

    def resume(self) -> None:
        """Goes on counting."""
        self._control(ENABLE)

    def pause(self) -> None:
        """Stops counting until `resume`."""
        self._control(DISABLE)

    def read(self) -> dict[str, int | None]:
        """Returns what was counted so far; None for a kind that cannot be."""
        return {name: None if name in self.reasons else sum(map(_value, files)) for name, files in self._files.items()}

    def as_event(self) -> Counters:
        """Returns the counters of a training, or why there are none."""
        found = self.read()
        if found.get("instructions") is None:
            return Counters(reason=self.reasons.get("instructions", "instructions are not counted"))
        return Counters(
            instructions=found["instructions"], cycles=found.get("cycles"), cache_misses=found.get("cache_misses")
        )

    def close(self) -> None:
        """Gives the counters back."""
        for file in (file for files in self._files.values() for file in files):
            os.close(file)
        self._files = {name: [] for name in self._files}

    def _control(self, request: int) -> None:
        for file in (file for files in self._files.values() for file in files):
            fcntl.ioctl(file, request, 0)


@contextmanager
def counting(kinds: Sequence[Kind] = OF_TRAINING) -> Iterator[Counting]:
    """Counts inside: all threads that exist, and all threads and processes that these start."""
    counters = Counting(kinds)
    try:
        counters.resume()
        yield counters
    finally:
        counters.close()


def _open_all(kind: Kind, threads: Sequence[int]) -> tuple[list[int], str | None]:
    """Opens the counter in each thread; returns the files, or why it cannot be counted."""
    if kind == CACHE_MISSES and "AMD" in read_topology().cpu_model:
        return [], "AMD processors count misses of the last-level cache per group of cores, not per process"
    files: list[int] = []
    for thread in threads:
        file, number = _open(kind, thread)
        if file >= 0:
            files.append(file)
        elif number != errno.ESRCH:  # else the thread has ended
            for opened in files:
                os.close(opened)
            return [], explain(number)
    return files, None


def _open(kind: Kind, thread: int) -> tuple[int, int]:
    """Returns a file, or −1 and the error."""
    call = SYSTEM_CALL.get(platform.machine())
    if call is None or platform.system() != "Linux":
        return -1, errno.ENOSYS
    flags = DISABLED | INHERITED | NO_KERNEL | NO_HYPERVISOR
    packed = ATTRIBUTES.pack(kind.type, ATTRIBUTES.size, kind.config, 0, 0, TIMES, flags, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(packed, ATTRIBUTES.size)
    # On whichever core the thread runs (−1), in no group (−1).
    numbers = (ctypes.c_long(each) for each in (thread, -1, -1, CLOSE_ON_EXEC))
    file = library.syscall(ctypes.c_long(call), ctypes.byref(buffer), *numbers)
    return file, ctypes.get_errno()


def _value(file: int) -> int:
    """Returns the count; if counters took turns, extrapolated to the time in which this one had none, as perf does."""
    value, enabled_ns, running_ns = struct.unpack("QQQ", os.read(file, 24))
    return round(value * enabled_ns / running_ns) if running_ns else int(value)


def explain(number: int) -> str:
    """Returns why a counter cannot be opened, and what to do."""
    if number in (errno.EACCES, errno.EPERM):
        level = "unknown"
        with suppress(OSError):
            level = PARANOID.read_text().strip()
        return (
            f"the kernel does not allow it (perf_event_paranoid is {level}). Ask for sysctl "
            "kernel.perf_event_paranoid=2, and in a container for the system call perf_event_open"
        )
    if number in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "the kernel has no hardware counters here, as in most virtual machines"
    if number == errno.ENOSYS:
        return "this system has no perf_event_open"
    if number == errno.EMFILE:
        return "too many open files: raise the limit (ulimit -n)"
    return f"perf_event_open failed: {os.strerror(number)}"
