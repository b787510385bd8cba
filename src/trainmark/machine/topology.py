"""CPU topology: usable cores by NUMA domain, pinning a rank, and verifying its affinity."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from trainmark.spec.errors import PlanError
from trainmark.spec.events import Affinity
from trainmark.spec.units import parse_cores, show_cores

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class Topology:
    """What this process may use of a machine."""

    numa_domains: tuple[tuple[int, ...], ...]
    logical_cpus: int
    cpu_model: str
    memory_bytes: int

    @property
    def cores(self) -> tuple[int, ...]:
        """Usable physical cores."""
        return tuple(core for domain in self.numa_domains for core in domain)


def read_topology(system: Path = SYSTEM, allowed: set[int] | None = None) -> Topology:
    """Reads the topology from sysfs, restricted to the CPUs this process is `allowed` to use."""
    usable = os.sched_getaffinity(0) if allowed is None else allowed
    cores = _one_thread_per_core(system, usable)
    domains = [
        tuple(core for core in parse_cores(path.read_text()) if core in cores)
        for path in sorted(system.glob("node/node[0-9]*/cpulist"), key=_node_number)
    ]
    known = tuple(domain for domain in domains if domain) or (tuple(sorted(cores)),)
    return Topology(known, len(usable), _cpu_model(), _memory_bytes())


def _node_number(cpulist: Path) -> int:
    return int(cpulist.parent.name.removeprefix("node"))


def _one_thread_per_core(system: Path, usable: set[int]) -> set[int]:
    first_threads = set()
    for cpu in usable:
        siblings = system / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        threads = parse_cores(siblings.read_text()) if siblings.exists() else (cpu,)
        first_threads.add(min(set(threads) & usable))
    return first_threads


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def instruction_sets() -> list[str]:
    """Returns the CPU's vector instruction sets that matter for training, by their kernel names."""
    wanted = (
        "avx2",
        "avx512f",
        "avx512_bf16",
        "avx512_vnni",
        "avx512_fp16",
        "amx_bf16",
        "amx_int8",
        "asimd",
        "sve",
        "bf16",
    )
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            return [name for name in wanted if name in flags]
    return []


def pin_to(cores: tuple[int, ...]) -> None:
    """Pins this process and the threads it starts to `cores`."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        allowed = show_cores(tuple(os.sched_getaffinity(0)))
        raise PlanError(
            f"Cannot run on cores {show_cores(cores)}: this process may use {allowed} ({error.strerror}). "
            "Plan with the cores of this job, or request more from the scheduler."
        ) from error


def check_affinity(
    cores: tuple[int, ...],
    threads: int,
    threads_running: int,
    interop_threads: int | None = None,
    interop_threads_running: int | None = None,
) -> Affinity:
    """Compares requested and actual affinity of all threads, and the thread counts; None was not requested."""
    allowed = set(os.sched_getaffinity(0))
    for task in Path("/proc/self/task").iterdir():
        try:
            allowed |= os.sched_getaffinity(int(task.name))
        except ProcessLookupError:  # the thread has exited
            continue
    return Affinity(
        cores_asked=show_cores(cores),
        cores_allowed=show_cores(tuple(allowed)),
        threads_asked=threads,
        threads_running=threads_running,
        verified=allowed == set(cores)
        and threads == threads_running
        and interop_threads in (None, interop_threads_running),
        interop_threads_asked=interop_threads,
        interop_threads_running=interop_threads_running,
    )
