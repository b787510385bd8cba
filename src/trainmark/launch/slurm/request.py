"""Resources that a member's job, or one allocation for all members, requests, and the #SBATCH lines."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, Rank
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.slurm_site import SlurmSite


class JobShape(NamedTuple):
    """Nodes, ranks, and resources per rank."""

    nodes: int
    ranks: int
    ranks_per_node: int
    cores_per_rank: int
    has_whole_nodes: bool
    has_accelerators: bool


def shape_of_member(record: JobRecord) -> JobShape:
    """Returns one member's shape; ranks that bind themselves need exclusive nodes, as nothing else separates jobs."""
    shape = _shape(record.job.ranks, record.group)
    return shape._replace(has_whole_nodes=shape.has_whole_nodes or record.site.slurm.binding == "plan")


def by_shape(records: list[JobRecord]) -> list[list[JobRecord]]:
    """Groups records that can be one array: same node group and shape."""
    parts: dict[object, list[JobRecord]] = {}
    for record in records:
        parts.setdefault((record.group.node_names[0], shape_of_member(record)), []).append(record)
    return list(parts.values())


def shape_of_all(records: list[JobRecord]) -> JobShape:
    """Returns the shape of all concurrent members, each lane once."""
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
    """Raises if the plan cannot be expressed as Slurm jobs."""
    for group in site.groups:
        if len({len(slot.cores) for slot in group.slots}) > 1:
            raise PlanError(
                "Slurm gives every task of a job the same number of cores, but the slots of a group have "
                f"{', '.join(str(len(slot.cores)) for slot in group.slots)}. Give all slots of a group the same number."
            )
    for job in plan.first_jobs:
        shares = Counter(rank.node for rank in job.ranks)
        if len(set(shares.values())) > 1:
            raise PlanError(
                f"{len(job.ranks)} workers cannot be spread evenly over {len(shares)} nodes: each has the same number. "
                f"Choose --workers {len(job.ranks) - len(job.ranks) % len(shares)}."
            )
    if one_allocation and site.slurm.starter != "srun":
        raise PlanError(
            f"In one allocation members are srun steps, but the site starts ranks with {site.slurm.starter}. "
            'Choose --set launch.allocation=per-member, or set slurm.starter = "srun" in the site file.'
        )
    used = {id(site.group_of(job.ranks[0].node)) for job in plan.first_jobs}
    if one_allocation and len(used) > 1:
        raise PlanError(
            f"One allocation has identical nodes, but the plan uses {len(used)} groups of the site. "
            "Choose --set launch.allocation=per-member, or a site file with one group."
        )


MIB_PER_GIB = 1024


def header_lines(
    site: Site, group: NodeGroup, shape: JobShape, *, job_name: str, comment: str | None, minutes: int | None
) -> list[str]:
    """Returns the #SBATCH lines."""
    slurm = site.slurm
    is_warned = minutes is None or slurm.warn_before_limit_s < 60 * minutes  # preflight's job may be too short
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
        "threads-per-core": 1,  # a plan's cores are physical
        "mem": _memory(shape, group.memory_gib_per_slot),
        "gres": accelerators_of_ranks(shape, group),
        # To the ranks of each step; with mpirun to the batch script, which forwards it.
        "signal": f"{'' if slurm.starter == 'srun' else 'B:'}USR2@{slurm.warn_before_limit_s}" if is_warned else None,
        "open-mode": "append",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value is not None]
    lines += ["#SBATCH --exclusive"] if shape.has_whole_nodes else []
    # A restart is a new attempt with its own timings.
    return [*lines, "#SBATCH --no-requeue", *(f"#SBATCH {option}" for option in slurm.options)]


def check_time_limit(minutes: int | None, slurm: SlurmSite) -> None:
    """Raises if the ranks of a job would get SIGUSR2, and stop, as soon as it starts."""
    if minutes is not None and slurm.warn_before_limit_s >= 60 * minutes:
        raise PlanError(
            f"Jobs are limited to {minutes} min, but ranks get SIGUSR2 {slurm.warn_before_limit_s} s before that and "
            "stop: they would never train. Choose a longer time_limit_minutes, or a shorter slurm.warn_before_limit_s "
            "in the site file."
        )


def escaped_output(path: Path) -> str:
    """Escapes a path for --output of sbatch and srun, where % starts a pattern."""
    return str(path).replace("%", "%%")


def _memory(shape: JobShape, gib_per_slot: float | None) -> str | None:
    if shape.has_whole_nodes:
        return "0"  # all of the node's memory
    return memory_of_ranks(shape, gib_per_slot)


def memory_of_ranks(shape: JobShape, gib_per_slot: float | None) -> str | None:
    """Returns the memory of a node's ranks in Slurm's notation."""
    return None if gib_per_slot is None else f"{int(shape.ranks_per_node * gib_per_slot * MIB_PER_GIB)}M"


def accelerators_of_ranks(shape: JobShape, group: NodeGroup) -> str | None:
    """Returns the GRES of a node's ranks, one accelerator each."""
    return f"{group.gres}:{shape.ranks_per_node}" if shape.has_accelerators else None
