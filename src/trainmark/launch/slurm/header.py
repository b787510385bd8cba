"""The #SBATCH lines of a batch script; every value in them is a plain word, checked when the site was read."""

from pathlib import Path

from trainmark.launch.slurm.shape import JobShape
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.slurm_site import SlurmSite

MIB_PER_GIB = 1024


def header_lines(
    site: Site, group: NodeGroup, shape: JobShape, *, job_name: str, comment: str | None, minutes: int | None
) -> list[str]:
    """What is asked of Slurm, one option a line."""
    slurm = site.slurm
    is_warned = minutes is None or slurm.warn_before_limit_s < 60 * minutes  # preflight's job may be too short for it
    options = {
        "job-name": job_name,
        "comment": comment,
        "account": slurm.account,
        "qos": slurm.qos,
        "reservation": slurm.reservation,
        "partition": group.partition,
        "time": f"{minutes // 60:02d}:{minutes % 60:02d}:00" if minutes else None,
        "nodes": shape.nodes,
        "ntasks": shape.ranks,
        "ntasks-per-node": shape.ranks_per_node,
        "cpus-per-task": shape.cores_per_rank,
        "threads-per-core": 1,  # cores of a plan are physical ones
        "mem": _memory(shape, group.memory_gib_per_slot),
        "gres": accelerators_of_ranks(shape, group),
        # To the ranks of each step; an mpirun gets it from the batch script.
        "signal": f"{'' if slurm.starter == 'srun' else 'B:'}USR2@{slurm.warn_before_limit_s}" if is_warned else None,
        "open-mode": "append",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value is not None]
    lines += ["#SBATCH --exclusive"] if shape.has_whole_nodes else []
    # A restart is a new attempt, with timings of its own; Slurm must not mix them.
    return [*lines, "#SBATCH --no-requeue", *(f"#SBATCH {option}" for option in slurm.options)]


def check_time_limit(minutes: int | None, slurm: SlurmSite) -> None:
    """Raises if the ranks of a job would get SIGUSR2, and end, as soon as it starts."""
    if minutes is not None and slurm.warn_before_limit_s >= 60 * minutes:
        raise PlanError(
            f"A job ends after {minutes} min, but its ranks get SIGUSR2 {slurm.warn_before_limit_s} s before that and "
            "end: they would never train. Choose a longer time_limit_minutes, or a shorter slurm.warn_before_limit_s "
            "in the site file."
        )


def escaped_output(path: Path) -> str:
    """A path for --output of sbatch and srun, in which % begins a replacement and %% stands for itself."""
    return str(path).replace("%", "%%")


def _memory(shape: JobShape, gib_per_slot: float | None) -> str | None:
    if shape.has_whole_nodes:
        return "0"  # Slurm's word for all of it
    return memory_of_ranks(shape, gib_per_slot)


def memory_of_ranks(shape: JobShape, gib_per_slot: float | None) -> str | None:
    """What the ranks on a node need together, as Slurm writes it."""
    return None if gib_per_slot is None else f"{int(shape.ranks_per_node * gib_per_slot * MIB_PER_GIB)}M"


def accelerators_of_ranks(shape: JobShape, group: NodeGroup) -> str | None:
    """What the ranks on a node need together, as Slurm writes it: one for each."""
    return f"{group.gres}:{shape.ranks_per_node}" if shape.has_accelerators else None
