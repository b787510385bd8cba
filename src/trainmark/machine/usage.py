"""UsageMeter: what a member uses of its node, between two readings: cores, memory, network and accelerators."""

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

T = TypeVar("T")

NO_ACCELERATOR = "the member has no accelerator on this node"


@dataclass(frozen=True)
class Watched:
    """What of a node a member has: cores, the processes of its ranks, accelerators by their UUIDs."""

    cores: tuple[int, ...]
    pids: tuple[int, ...]
    accelerators: tuple[str, ...] = ()


class Counts(NamedTuple):
    """What the kernel has counted at one moment; None where it could not be read."""

    at_s: float
    cores: dict[int, CpuTimes] | None
    processes: ProcessUsage | None
    network: dict[str, NetworkBytes] | None


class UsageMeter:
    """Reads without ever raising: what cannot be read is null, and the reason stands beside it."""

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

    def read(self) -> dict[str, Any]:
        """What was used since the last reading."""
        began_s = time.thread_time()
        self._reasons = {}
        before, self._counts = self._counts, self._count()
        after = self._counts
        sample: dict[str, Any] = {
            "over_s": round(after.at_s - before.at_s, 6),
            "cpu": self._shares(before, after, self._watched.cores),
            "node_cpu": self._shares(before, after, (ALL_CORES,)),
            "processes": _used(before.processes, after.processes),
            **self._moved(before.network, after.network),
        }
        if self._accelerators is not None:
            found = self._attempt("accelerators", self._accelerators.read)
            sample["accelerators"] = None if found is None else [each._asdict() for each in found]
        if self._reasons:
            sample["unavailable"] = self._reasons
        sample["sampling_s"] = round(time.thread_time() - began_s, 6)
        return sample

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
        except Exception as error:  # noqa: BLE001  whatever a driver or a kernel says must not end a training
            self._reasons[name] = f"{type(error).__name__}: {error}"
            return None

    def _shares(self, before: Counts, after: Counts, cores: tuple[int, ...]) -> dict[str, float] | None:
        if before.cores is None or after.cores is None:
            return None
        shares: CpuShares | None = shares_between(before.cores, after.cores, cores)
        return None if shares is None else {name: round(share, 4) for name, share in shares._asdict().items()}

    def _moved(self, before: dict[str, NetworkBytes] | None, after: dict[str, NetworkBytes] | None) -> dict[str, Any]:
        if before is None or after is None:
            return {"network": None, "loopback_bytes": None}
        moved = moved_between(before, after)
        loopback = sum(moved.pop(name).sent for name in self.interfaces.loopback if name in moved)
        return {"network": {name: count._asdict() for name, count in moved.items()}, "loopback_bytes": loopback}


def _read_ranks(pids: tuple[int, ...]) -> ProcessUsage:
    """What the ranks use; an error if one of them cannot be seen: the others alone would be a wrong sum."""
    hidden = [pid for pid in pids if not os.path.exists(f"{PROC}/{pid}")]  # noqa: PTH110  as in process_usage
    if hidden:
        raise ProcessLookupError(f"{PROC} does not show {len(hidden)} of the member's {len(pids)} rank(s) here")
    return read_processes(pids)


def _used(before: ProcessUsage | None, after: ProcessUsage | None) -> dict[str, Any] | None:
    """Processor time since `before`; memory and number of processes now."""
    if before is None or after is None:
        return None
    # A process that ends without being waited for takes its time with it.
    return {**after._asdict(), "cpu_s": round(max(0.0, after.cpu_s - before.cpu_s), 3)}
