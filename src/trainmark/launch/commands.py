"""The command and environment of each rank, as an argument list or a line of shell."""

import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from trainmark.machine.allocators import find_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.site import Site

# By default glibc returns freed activations to the system after every step and faults them in again: up to 30 % of a
# step on CPUs. Huge pages make the remaining faults fewer and larger.
GLIBC_RETAIN = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# Every block of at least 1 MiB is mapped, and unmapped once it is freed: what a step needs is what it holds. Kept in a
# heap, blocks of unlike sizes fragment it; aligned blocks of one size do not even fit where one of them was.
GLIBC_MMAP = {
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_MMAP_MAX_": "1000000",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "16777216",  # of each thread's heap
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# By default jemalloc returns freed memory after ten seconds.
JEMALLOC_RETAIN = {"MALLOC_CONF": "background_thread:false,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"}


def rank_environment(launch: LaunchConfig, rank: Rank) -> dict[str, str]:
    """Returns the variables to set for one rank, on top of the user's environment."""
    threads = str(launch.threads or len(rank.cores))
    variables = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
        **_allocator(launch),
    }
    if launch.thread_binding != "none":
        variables |= {"OMP_PROC_BIND": launch.thread_binding, "OMP_PLACES": "cores"}
    if rank.accelerator is not None:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order in which the plan numbers them
        variables["CUDA_VISIBLE_DEVICES"] = str(rank.accelerator)
    return variables


def shared_environment(launch: LaunchConfig, ranks: tuple[Rank, ...]) -> dict[str, str]:
    """Returns the variables common to all ranks of a member, for launchers that set them once.

    Accelerators are left out: each rank selects its own. So are thread counts if slots differ in cores: libraries then
    use one thread per core of the rank.
    """
    each = [rank_environment(launch, rank._replace(accelerator=None)) for rank in ranks]
    return {name: value for name, value in each[0].items() if all(of_rank.get(name) == value for of_rank in each)}


def _allocator(launch: LaunchConfig) -> dict[str, str]:
    name = launch.allocator
    if name == "glibc-tuned":
        return GLIBC_RETAIN
    if name == "glibc-mmap":
        return GLIBC_MMAP
    if name == "system":
        return {}
    more = JEMALLOC_RETAIN if name == "jemalloc" else {}
    return {"LD_PRELOAD": find_allocator(name, on_other_nodes=launch.launcher == "slurm"), **more}


class RankCommand(NamedTuple):
    """The command of a rank, and its environment variables."""

    argv: tuple[str, ...]
    environment: dict[str, str]

    def as_shell(self) -> str:
        """Returns the command as one line of shell, quoted."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*variables, *(shlex.quote(word) for word in self.argv)])


def as_comment(text: str) -> str:
    """Returns a comment line without control characters: a line break would have the rest executed."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def rank_command(
    record: JobRecord, rank: Rank, attempt: int, launcher_environment: dict[str, str], *, supervised_by: int | None
) -> RankCommand:
    """Returns the command of one rank of an attempt; a launcher may add variables."""
    argv = [*worker_argv(record), "--rank", str(rank.rank), "--attempt", str(attempt)]
    if supervised_by is not None:
        # A container runtime may stay between launcher and rank, and then is the rank's parent.
        supervision = ["--end-with-input"] if record.site.container else ["--supervised-by", str(supervised_by)]
        argv += ["--wait-for-start", *supervision]
    return RankCommand(tuple(argv), {**rank_environment(record.config.launch, rank), **launcher_environment})


def worker_argv(record: JobRecord) -> list[str]:
    """Returns the command of a worker on its node: container, Python and the job record."""
    job_file = str(record.folder.job_record(record.job.member))
    return [*module_argv("trainmark.train.worker", record.site, record.config.launch.python), job_file]


def module_argv(module: str, site: Site, python: str | None = None) -> list[str]:
    """Returns the command that runs a module on a node, with the site's Python or with `python`, of any environment."""
    if python is not None:
        return [*site.container, python, str(Path(__file__).resolve().with_name("other_python.py")), module]
    # -P: nothing is imported from the working directory
    return [*site.container, site.python or sys.executable, "-P", "-m", module]
