"""SlurmSite: the Slurm settings of a site, and which sbatch options it may add."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainmark.spec.config import StrictSection
from trainmark.spec.script_text import SlurmName, one_line

# sbatch parses options from the head of a script, where spaces, quotes, \ and # are special.
OPTION = re.compile(r"--([a-z][a-z0-9-]*)(=[^\s'\"\\#]*)?")

# sbatch options with a key in the site file.
OPTIONS_WITH_A_KEY = {
    "account": "slurm.account",
    "qos": "slurm.qos",
    "reservation": "slurm.reservation",
    "time": "slurm.time_limit_minutes",
    "partition": "groups.partition",
    "gres": "groups.gres",
    "mem": "groups.memory_gib_per_slot",
    "mem-per-cpu": "groups.memory_gib_per_slot",
}
# sbatch options that follow from the plan, or by which trainmark finds and tracks its jobs.
OPTIONS_OF_TRAINMARK = {
    *("array", "comment", "cpus-per-task", "error", "job-name", "no-requeue", "nodes", "ntasks", "ntasks-per-node"),
    *("open-mode", "output", "requeue", "signal", "threads-per-core"),
}
# Options with which sbatch does not submit a script.
OPTIONS_THAT_SUBMIT_NOTHING = {"help", "test-only", "usage", "version", "wrap"}


def long_option(text: str) -> str:
    """Returns the text if it is one long option, such as --constraint=rome, that trainmark does not set."""
    found = OPTION.fullmatch(one_line(text))
    if not found:
        raise ValueError(
            "an option starts with two dashes and contains no spaces, quotes, \\ or #; write it like --constraint=rome"
        )
    # sbatch accepts abbreviated names (getopt_long): --arra is --array.
    refused = (*OPTIONS_WITH_A_KEY, *sorted(OPTIONS_OF_TRAINMARK | OPTIONS_THAT_SUBMIT_NOTHING))
    meant = found[1] if found[1] in refused else next((full for full in refused if full.startswith(found[1])), None)
    if meant is None:
        return text
    name = f"--{meant}" if meant == found[1] else f"--{found[1]}, an abbreviation of --{meant},"
    if meant in OPTIONS_WITH_A_KEY:
        raise ValueError(f"{name} has its own key; use {OPTIONS_WITH_A_KEY[meant]}")
    if meant in OPTIONS_OF_TRAINMARK:
        raise ValueError(f"{name} is set by trainmark; remove it")
    raise ValueError(f"with {name} sbatch does not submit a script; remove it")


LongOption = Annotated[str, AfterValidator(long_option)]


class SlurmSite(StrictSection):
    """Options of every job of the site, and limits on the load of the scheduler."""

    account: SlurmName | None = Field(None, description="account to charge (sbatch --account)")
    qos: SlurmName | None = Field(None, description="quality of service (sbatch --qos)")
    reservation: SlurmName | None = Field(None, description="reservation to run in (sbatch --reservation)")
    time_limit_minutes: int | None = Field(None, ge=1, description="time limit per job; launch.time_limit_minutes wins")
    options: tuple[LongOption, ...] = Field((), strict=False, description="further sbatch options, passed on unchanged")
    binding: Literal["slurm", "plan"] = Field(
        "slurm",
        description="slurm: ranks use the cores bound by srun; plan: ranks bind to the cores of their slot",
    )
    starter: Literal["srun", "mpirun", "mpiexec.hydra"] = Field(
        "srun", description="launches the ranks inside a job: srun, Open MPI's mpirun, or MPICH's"
    )
    mpi: SlurmName | None = Field(None, description="PMI type of srun (srun --mpi), e.g. pmix; default: none")
    max_queued: int = Field(500, ge=1, description="limit of members queued or running concurrently")
    max_running: int | None = Field(None, ge=1, description="limit of members running concurrently")
    warn_before_limit_s: int = Field(
        120, ge=10, description="time before the time limit at which a member writes a checkpoint and exits"
    )
    poll_s: float = Field(15.0, gt=0, description="maximum interval between queue polls")
