"""SlurmSite: how a site's scheduler wants to be asked, and which options of sbatch a site may pass on."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainmark.spec.config import StrictSection
from trainmark.spec.words import PlainWord, one_line

# sbatch reads options from the head of a script, where spaces, quotes, \ and # mean something of their own.
OPTION = re.compile(r"--([a-z][a-z0-9-]*)(=[^\s'\"\\#]*)?")

# Options of sbatch that the site file has a key for.
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
# Options of sbatch that follow from the plan of a run, or by which trainmark finds and follows its jobs.
OPTIONS_OF_TRAINMARK = {
    *("array", "comment", "cpus-per-task", "error", "job-name", "no-requeue", "nodes", "ntasks", "ntasks-per-node"),
    *("open-mode", "output", "requeue", "signal", "threads-per-core"),
}
# Options that make sbatch do something else than submit a job's script.
OPTIONS_THAT_SUBMIT_NOTHING = {"help", "test-only", "usage", "version", "wrap"}


def long_option(text: str) -> str:
    """The text, if it is one long option such as --constraint=rome that nothing else decides."""
    found = OPTION.fullmatch(one_line(text))
    if not found:
        raise ValueError(
            "an option is one word that begins with two dashes, without spaces, quotes, \\ and #; "
            "write it like --constraint=rome"
        )
    # sbatch completes a name that is cut short (getopt_long): --arra is --array.
    refused = (*OPTIONS_WITH_A_KEY, *sorted(OPTIONS_OF_TRAINMARK | OPTIONS_THAT_SUBMIT_NOTHING))
    meant = found[1] if found[1] in refused else next((full for full in refused if full.startswith(found[1])), None)
    if meant is None:
        return text
    name = f"--{meant}" if meant == found[1] else f"--{found[1]}, which may stand for --{meant},"
    if meant in OPTIONS_WITH_A_KEY:
        raise ValueError(f"{name} has a key of its own; use {OPTIONS_WITH_A_KEY[meant]}")
    if meant in OPTIONS_OF_TRAINMARK:
        raise ValueError(f"{name} is set by trainmark itself; leave it out")
    raise ValueError(f"with {name} sbatch does not submit a job's script; leave it out")


LongOption = Annotated[str, AfterValidator(long_option)]


class SlurmSite(StrictSection):
    """What every job of the site is submitted with, and how gently the scheduler is treated."""

    account: PlainWord | None = Field(None, description="account that pays (sbatch --account)")
    qos: PlainWord | None = Field(None, description="quality of service (sbatch --qos)")
    reservation: PlainWord | None = Field(None, description="reservation to run in (sbatch --reservation)")
    time_limit_minutes: int | None = Field(None, ge=1, description="limit of each job; launch.time_limit_minutes wins")
    options: tuple[LongOption, ...] = Field(
        (), strict=False, description="further sbatch options, passed on as they are"
    )
    binding: Literal["slurm", "plan"] = Field(
        "slurm", description="slurm: ranks take the cores that srun binds them to; plan: the cores of their slot"
    )
    starter: Literal["srun", "mpirun", "mpiexec.hydra"] = Field(
        "srun", description="what starts the ranks inside a job: srun, Open MPI's mpirun, or MPICH's"
    )
    mpi: PlainWord | None = Field(None, description="PMI type of srun (srun --mpi), e.g. pmix; default: none")
    max_queued: int = Field(500, ge=1, description="members that may be queued or running at the same time")
    max_running: int | None = Field(None, ge=1, description="members that may run at the same time")
    warn_before_limit_s: int = Field(
        120, ge=10, description="how long before its time limit a member is asked to write a checkpoint and end"
    )
    poll_s: float = Field(15.0, gt=0, description="longest time between two looks at the queue")
