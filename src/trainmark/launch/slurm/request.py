"""What a member's job, or one allocation for all members, asks of Slurm, and the #SBATCH lines."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, Rank
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.slurm_site import SlurmSite


class JobShape(NamedTuple):
    """Nodes, ranks, and what each rank needs."""

    nodes: int
    ranks: int
    ranks_per_node: int
    cores_per_rank: int
    has_whole_nodes: bool
    has_accelerators: bool


def shape_of_member(record: JobRecord) -> JobShape:
    """What one member needs. Ranks that bind themselves need whole nodes: nothing else keeps jobs apart there."""
    shape = _shape(record.job.ranks, record.group)
    return shape._replace(has_whole_nodes=shape.has_whole_nodes or record.site.slurm.binding == "plan")


def alike(records: list[JobRecord]) -> list[list[JobRecord]]:
    """The records in parts that can each be one array: of one group of nodes and one shape."""
    parts: dict[object, list[JobRecord]] = {}
    for record in records:
        parts.setdefault((record.group.node_names[0], shape_of_member(record)), []).append(record)
    return list(parts.values())


def shape_of_all(records: list[JobRecord]) -> JobShape:
    """What all members need who train side by side: each lane once."""
    lanes = {record.job.lane: record.job.ranks for record in records}
    ranks = tuple(rank for lane in lanes.values() for rank in lane)
    return _shape(ranks, records[0].group)._replace(has_whole_nodes=True)


def _shape(ranks: tuple[Rank, ...], group: NodeGroup) -> JobShape:
    shares = Counter(rank.node for rank in ranks)
    most = max(shares.values())
    return JobShape(
        nodes=len(shares),
        ranks=len(ranks),
        ranks_per_node=most,
        cores_per_rank=len(ranks[0].cores),
        has_whole_nodes=most == len(group.slots) == min(shares.values()),
        has_accelerators=ranks[0].accelerator is not None,
    )


def check_shapes(plan: Plan, site: Site, *, one_allocation: bool) -> None:
    """Raises if the plan needs what Slurm could not be asked for."""
    for group in site.groups:
        if len({len(slot.cores) for slot in group.slots}) > 1:
            raise PlanError(
                "Slurm gives every task of a job equally many cores, but slots of one group have "
                f"{', '.join(str(len(slot.cores)) for slot in group.slots)}. Give the slots of a group the same number."
            )
    for job in plan.first_jobs:
        shares = Counter(rank.node for rank in job.ranks)
        if len(set(shares.values())) > 1:
            raise PlanError(
                f"{len(job.ranks)} workers on {len(shares)} nodes do not share them evenly, as Slurm needs it. "
                f"Choose --workers {len(job.ranks) - len(job.ranks) % len(shares)}."
            )
    if one_allocation and site.slurm.starter != "srun":
        raise PlanError(
            f"In one allocation members are steps of srun, but the site starts ranks by {site.slurm.starter}. "
            'Choose --set launch.allocation=per-member, or set slurm.starter = "srun" in the site file.'
        )
    used = {id(site.group_of(job.ranks[0].node)) for job in plan.first_jobs}
    if one_allocation and len(used) > 1:
        raise PlanError(
            f"One allocation holds nodes that are alike, but the plan uses {len(used)} groups of the site. "
            "Choose --set launch.allocation=per-member, or a site file with one group."
        )


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
