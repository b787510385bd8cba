"""JobShape: what a member's job, or one allocation for all members, asks of Slurm."""

from collections import Counter
from typing import NamedTuple

from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan, Rank
from trainmark.spec.site import NodeGroup, Site


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
    """Nothing, or an error about what Slurm could not be asked for."""
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
