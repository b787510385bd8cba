"""The command and the environment of each rank: to run as an argument list, to read as a line of a script."""

import shlex
import sys
from typing import NamedTuple

from trainmark.machine.allocators import find_allocator
from trainmark.spec.config import Allocator, LaunchConfig
from trainmark.spec.job_record import JobRecord
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


def _allocator(name: Allocator) -> dict[str, str]:
    if name == "glibc-tuned":
        return KEEP_FREED_MEMORY
    if name == "system":
        return {}
    more = JEMALLOC_KEEPS if name == "jemalloc" else {}
    return {"LD_PRELOAD": find_allocator(name), **more}


class RankCommand(NamedTuple):
    """What starts a rank, and the variables it is given."""

    argv: tuple[str, ...]
    environment: dict[str, str]

    def as_shell(self) -> str:
        """The same as one line of shell, every word quoted."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*variables, *(shlex.quote(word) for word in self.argv)])


def as_comment(text: str) -> str:
    """One comment line: a line break in `text` would end the comment and have the rest executed."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def rank_command(
    record: JobRecord, rank: Rank, attempt: int, launcher_environment: dict[str, str], *, supervised_by: int | None
) -> RankCommand:
    """The command that starts one rank of one attempt at a member; a launcher may add variables of its own."""
    argv = [*worker_argv(record), "--rank", str(rank.rank), "--attempt", str(attempt)]
    if supervised_by is not None:
        # What starts a container may stay between the launcher and the rank, whose parent is then another process.
        leash = ["--end-with-input"] if record.site.container else ["--supervised-by", str(supervised_by)]
        argv += ["--wait-for-start", *leash]
    return RankCommand(tuple(argv), {**rank_environment(record.config.launch, rank), **launcher_environment})


def worker_argv(record: JobRecord) -> list[str]:
    """What starts a worker of the member on its node: the site's container and Python, and the job's record."""
    site = record.site
    job_file = str(record.folder.job_record(record.job.member))
    # -P: nothing is imported from the folder in which the worker happens to be started
    return [*site.container, site.python or sys.executable, "-P", "-m", "trainmark.train.worker", job_file]
