"""Starts each member by its own mpirun, on this machine or on the site's nodes."""

import os
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from trainmark.launch.blame import explain_mpirun
from trainmark.launch.commands import as_comment, shared_environment, worker_argv
from trainmark.launch.local import check_this_machine
from trainmark.launch.processes import ProcessCommand, ProcessLauncher
from trainmark.launch.start_barrier import SAME_STORAGE_DELAY_S, SHARED_STORAGE_DELAY_S
from trainmark.machine.processes import tied_to_us
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, Rank
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.site import Site
from trainmark.spec.units import counted

PROGRAMS = ("mpirun", "mpiexec")
TIMEOUT_S = 30.0
ALLOW_ROOT = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM")  # after the implementation's prefix; both must be 1
THIS_MACHINE = "localhost"


class Mpirun(NamedTuple):
    """The program's path and implementation; Hydra is used by MPICH and its derivatives."""

    program: str
    flavour: Literal["open-mpi", "hydra"]


def find_mpirun() -> Mpirun:
    """Finds mpirun on PATH; raises if there is none, or it is unknown."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        raise PlanError(
            "The launcher 'mpi' needs mpirun, but there is none on PATH. "
            "Load your MPI module, install one (Debian: openmpi-bin), or choose --launcher local."
        )
    version = _version(program)
    if "(Open MPI)" in version or "Open RTE" in version:
        return Mpirun(program, "open-mpi")
    if "HYDRA" in version:
        return Mpirun(program, "hydra")
    raise PlanError(
        f"{program} is '{version.strip().split(chr(10))[0]}', but the launcher 'mpi' supports Open MPI and MPICH's "
        "Hydra. Put one of them first on PATH, or choose --launcher local."
    )


def check_root(mpirun: Mpirun, user_id: int, environment: Mapping[str, str]) -> None:
    """Raises if mpirun would refuse to run for this user: Open MPI requires two variables of root."""
    if mpirun.flavour != "open-mpi" or user_id != 0:
        return
    allowed = [all(environment.get(f"{prefix}_{name}") == "1" for name in ALLOW_ROOT) for prefix in ("OMPI", "PRTE")]
    if not any(allowed):
        raise PlanError(
            "Open MPI's mpirun refuses to run as root unless OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set. Run as another user, set both, or choose --launcher local."
        )


def _version(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlanError(f"'{program} --version' failed: {error}. Fix it, or choose --launcher local.") from None
    return done.stdout + done.stderr


def hosts_of(ranks: Sequence[Rank], *, is_this_machine: bool) -> dict[str, int]:
    """Returns the number of ranks per node, in rank order."""
    return {THIS_MACHINE: len(ranks)} if is_this_machine else dict(Counter(rank.node for rank in ranks))


def mpirun_argv(mpirun: Mpirun, hosts: dict[str, int]) -> list[str]:
    """Returns mpirun's options before the rank's command: ranks per host, in this order, unbound.

    Ranks bind themselves to the cores of the plan and verify that. Binding by mpirun could only conflict: it assigns
    the n-th core of the node to the n-th rank of *this* mpirun, so concurrent members on one node, each with its own
    mpirun, would all be bound to the first cores.

    By slot, Open MPI fills a host before the next, in the plan's order; Hydra always does. The plan sets the ranks per
    host, even if the scheduler allocated fewer tasks (OVERSUBSCRIBE).
    """
    listed = ",".join(f"{host}:{count}" for host, count in hosts.items())
    ranks = str(sum(hosts.values()))
    if mpirun.flavour == "open-mpi":
        mapping = ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
        return [mpirun.program, "--host", listed, *mapping, "-np", ranks]
    # Inside a Slurm job Hydra would call srun for localhost.
    local = ["-launcher", "fork"] if list(hosts) == [THIS_MACHINE] else []
    return [mpirun.program, *local, "-hosts", listed, "-bind-to", "none", "-n", ranks]


def launcher() -> ProcessLauncher:
    """Starts each member by its own mpirun, on this machine or on the site's nodes."""
    return ProcessLauncher(MpirunProcesses())


class MpirunProcesses:
    """One mpirun per member, whose exit code says little; ranks record their own errors."""

    @cached_property
    def _mpirun(self) -> Mpirun:
        return find_mpirun()

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if mpirun is missing or refuses this user, or this machine lacks the plan's cores or Python.

        Cores of other nodes are checked by the ranks, and their Python by its start.
        """
        check_root(self._mpirun, os.geteuid(), os.environ)
        if site.num_nodes == 1:
            check_this_machine(config, plan, site)

    def script(self, record: JobRecord) -> str:
        """The mpirun command."""
        ranks = len(record.job.ranks)
        lines = [
            "#!/bin/bash",
            as_comment(
                f"Run {record.folder.run_id}, member {record.job.member}: {counted(ranks, 'worker')} by mpirun."
            ),
            "# trainmark runs the same command with --wait-for-start and --own-log: members start together, and each",
            "# rank has its own log. Each rank binds itself to its planned cores and verifies that.",
            f"{shlex.join(self._argv(record, 1))} </dev/null",
        ]
        return "\n".join(lines) + "\n"

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """mpirun, without extra variables."""
        argv = tied_to_us((*self._argv(record, number), "--wait-for-start", "--own-log"))
        return [ProcessCommand("mpirun", argv, {}, attempt.mpirun_log)]

    def _argv(self, record: JobRecord, number: int) -> list[str]:
        ranks = record.job.ranks
        hosts = hosts_of(ranks, is_this_machine=record.site.num_nodes == 1)
        # By `env`, since mpirun's options differ between implementations and some would affect mpirun itself.
        variables = [f"{name}={value}" for name, value in shared_environment(record.config.launch, ranks).items()]
        worker = [*worker_argv(record), "--rank", "mpi", "--attempt", str(number)]
        return [*mpirun_argv(self._mpirun, hosts), "env", *variables, *worker]

    def start_delay_s(self, record: JobRecord) -> float:
        """Short on this machine; else as long as shared storage needs."""
        return SAME_STORAGE_DELAY_S if record.site.num_nodes == 1 else SHARED_STORAGE_DELAY_S

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """Whether a rank has recorded a failure: Hydra lets the others wait for it forever."""
        return attempt.failed.exists()

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """The rank that failed first, by recorded errors or missing ones."""
        return explain_mpirun(attempt, len(record.job.ranks), codes[0])
