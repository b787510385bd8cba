"""SlurmSite: how a site's scheduler wants to be asked, whatever is run there."""

from typing import Literal

from pydantic import Field

from trainmark.spec.config import StrictSection
from trainmark.spec.sbatch_options import LongOption
from trainmark.spec.words import PlainWord


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
