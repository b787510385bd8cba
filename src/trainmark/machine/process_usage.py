"""What processes and their children use: processor time and resident memory (/proc/PID/stat)."""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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
