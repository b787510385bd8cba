"""UsageMeter: a member's use of its node between two readings: cores, memory, network and accelerators."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from trainmark.machine.accelerators import AcceleratorMeter
from trainmark.machine.cpu_usage import (
    ALL_CORES,
    PROC,
    CpuShares,
    CpuTimes,
    ProcessUsage,
    read_cpu_times,
    read_processes,
    shares_between,
)
from trainmark.machine.network import Interfaces, NetworkBytes, find_interfaces, moved_between, read_moved
from trainmark.spec.machine_events import AcceleratorUse, CpuUse, MovedBytes, ProcessUse, Usage

T = TypeVar("T")

NO_ACCELERATOR = "the member has no accelerator on this node"


@dataclass(frozen=True)
class Watched:
    """A member's resources on a node: cores, rank processes, accelerator UUIDs."""

    cores: tuple[int, ...]
    pids: tuple[int, ...]
    accelerators: tuple[str, ...] = ()


class Counts(NamedTuple):
    """One reading of the kernel's counters; None where unavailable."""

    at_s: float
    cores: dict[int, CpuTimes] | None
    processes: ProcessUsage | None
    network: dict[str, NetworkBytes] | None


class UsageMeter:
    """Reads without raising: unavailable figures are null, with the reason beside them."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._reasons: dict[str, str] = {}
        self.interfaces = self._attempt("network", find_interfaces) or Interfaces((), (), {})
        self._accelerators: AcceleratorMeter | None = None
        if watched.accelerators:
            self._accelerators = self._attempt("accelerators", lambda: AcceleratorMeter(watched.accelerators))
        else:
            self._reasons["accelerators"] = NO_ACCELERATOR
        self.unavailable = dict(self._reasons)  # from the start
        self._counts = self._count()

    def read(self) -> Usage:
        """Returns the usage since the last reading, without accelerators if there are none."""
        began_s = time.thread_time()
        self._reasons = {}
        before, self._counts = self._counts, self._count()
        after = self._counts
        network, loopback_bytes = self._moved(before.network, after.network)
        watched: dict[str, Any] = {}
        if self._accelerators is not None:
            found = self._attempt("accelerators", self._accelerators.read)
            watched["accelerators"] = None if found is None else [AcceleratorUse(**each._asdict()) for each in found]
        if self._reasons:
            watched["unavailable"] = self._reasons
        return Usage(
            over_s=round(after.at_s - before.at_s, 6),
            cpu=self._shares(before, after, self._watched.cores),
            node_cpu=self._shares(before, after, (ALL_CORES,)),
            processes=_used(before.processes, after.processes),
            network=network,
            loopback_bytes=loopback_bytes,
            sampling_s=round(time.thread_time() - began_s, 6),
            **watched,
        )

    def _count(self) -> Counts:
        watched = self._watched
        return Counts(
            at_s=time.monotonic(),
            cores=self._attempt("cpu", lambda: read_cpu_times(watched.cores)),
            processes=self._attempt("processes", lambda: _read_ranks(watched.pids)),
            network=self._attempt("network", lambda: read_moved(self.interfaces)),
        )

    def _attempt(self, name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as error:  # noqa: BLE001  no driver or kernel error may stop training
            self._reasons[name] = f"{type(error).__name__}: {error}"
            return None

    def _shares(self, before: Counts, after: Counts, cores: tuple[int, ...]) -> CpuUse | None:
        if before.cores is None or after.cores is None:
            return None
        shares: CpuShares | None = shares_between(before.cores, after.cores, cores)
        return None if shares is None else CpuUse(**{name: round(share, 4) for name, share in shares._asdict().items()})

    def _moved(
        self, before: dict[str, NetworkBytes] | None, after: dict[str, NetworkBytes] | None
    ) -> tuple[dict[str, MovedBytes] | None, int | None]:
        """Returns bytes per external interface, and through loopback."""
        if before is None or after is None:
            return None, None
        moved = moved_between(before, after)
        loopback = sum(moved.pop(name).sent for name in self.interfaces.loopback if name in moved)
        return {name: MovedBytes(received=count.received, sent=count.sent) for name, count in moved.items()}, loopback


def _read_ranks(pids: tuple[int, ...]) -> ProcessUsage:
    """Returns the usage of all ranks; raises if one is not visible, since the sum would be wrong."""
    hidden = [pid for pid in pids if not os.path.exists(f"{PROC}/{pid}")]  # noqa: PTH110  as in process_usage
    if hidden:
        raise ProcessLookupError(f"{PROC} does not show {len(hidden)} of the member's {len(pids)} rank(s) here")
    return read_processes(pids)


def _used(before: ProcessUsage | None, after: ProcessUsage | None) -> ProcessUse | None:
    """CPU time since `before`; current memory and number of processes."""
    if before is None or after is None:
        return None
    # A process that exits without being reaped takes its time with it.
    cpu_s = round(max(0.0, after.cpu_s - before.cpu_s), 3)
    return ProcessUse(cpu_s=cpu_s, resident_bytes=after.resident_bytes, processes=after.processes)
