"""The environment that a launcher gives to a rank: threads, allocator, device; the same for every launcher."""

from typing import Literal

from trainmark.machine.allocators import find_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.plan import Rank

# glibc otherwise returns freed activations to the system after every step and faults them in again: up to 30 % of a
# step on CPUs. With huge pages asked for, fewer and larger faults remain.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# jemalloc gives memory back after ten seconds by default; longer than a step is long enough.
JEMALLOC_KEEPS = {"MALLOC_CONF": "background_thread:false,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"}


def rank_environment(launch: LaunchConfig, rank: Rank) -> dict[str, str]:
    """The variables to set for one rank, on top of what the user has."""
    threads = str(launch.threads or len(rank.cores))
    variables = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
        **_allocator(launch.allocator),
    }
    if launch.thread_binding != "none":
        variables |= {"OMP_PROC_BIND": launch.thread_binding, "OMP_PLACES": "cores"}
    if rank.accelerator is not None:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order in which the plan numbers them
        variables["CUDA_VISIBLE_DEVICES"] = str(rank.accelerator)
    return variables


def shared_environment(launch: LaunchConfig, ranks: tuple[Rank, ...]) -> dict[str, str]:
    """The variables that all ranks of a member have alike, for who can set them but once.

    Accelerators are left out: each rank chooses its own. Threads are, where slots have unlike numbers of cores: then
    libraries take as many as the rank has cores.
    """
    each = [rank_environment(launch, rank._replace(accelerator=None)) for rank in ranks]
    return {name: value for name, value in each[0].items() if all(of_rank.get(name) == value for of_rank in each)}


def _allocator(name: Literal["keep", "system", "tcmalloc", "jemalloc"] | None) -> dict[str, str]:
    assert name is not None, "the plan has filled it in"
    if name == "keep":
        return KEEP_FREED_MEMORY
    if name == "system":
        return {}
    more = JEMALLOC_KEEPS if name == "jemalloc" else {}
    return {"LD_PRELOAD": find_allocator(name), **more}
