"""Members → nodes → ranks → cores: which slots a member's workers get."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from trainmark.plan.scale import Scale
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.site import NodeGroup, Site


class _Place(NamedTuple):
    """One slot of one node."""

    node: str
    cores: tuple[int, ...]
    accelerator: int | None


def map_members(scale: Scale, site: Site) -> Plan:
    """Every member on a lane of slots: whole nodes where it needs several, else side by side on a node."""
    lanes = [
        _ranks_of(places) for group in site.groups for places in islice(_lanes_of(group, scale.workers), scale.members)
    ][: scale.members]
    if not lanes:
        raise PlanError(_does_not_fit(scale.workers, site))
    jobs = tuple(Job(member, member % len(lanes), lanes[member % len(lanes)]) for member in range(scale.members))
    return Plan(
        members=scale.members,
        workers_per_member=scale.workers,
        system_scale=scale.system_scale,
        site=site.name,
        lanes=len(lanes),
        idle_slots=site.num_slots - len(lanes) * scale.workers,
        jobs=jobs,
    )


def _lanes_of(group: NodeGroup, workers: int) -> Iterator[list[_Place]]:
    """Groups of `workers` slots. A member never shares a node that it does not fill with one that spans nodes."""
    names, slots = group.node_names(), len(group.slots)
    if workers <= slots:
        for name in names:
            for lane in range(slots // workers):
                yield [_place(group, name, lane * workers + i) for i in range(workers)]
    else:
        nodes_each = -(-workers // slots)
        for first in range(0, len(names) - nodes_each + 1, nodes_each):
            spread = names[first : first + nodes_each]
            # Evenly over the nodes: 6 workers on nodes of 4 slots are 3 + 3, not 4 + 2.
            shares = [workers // nodes_each + (i < workers % nodes_each) for i in range(nodes_each)]
            yield [
                _place(group, name, slot) for name, share in zip(spread, shares, strict=True) for slot in range(share)
            ]


def _place(group: NodeGroup, node: str, slot: int) -> _Place:
    return _Place(node, group.slots[slot].cores, group.slots[slot].accelerator)


def _ranks_of(places: list[_Place]) -> tuple[Rank, ...]:
    ranks: list[Rank] = []
    on_node: dict[str, int] = {}
    for rank, place in enumerate(places):
        rank_of_node = on_node.get(place.node, 0)
        on_node[place.node] = rank_of_node + 1
        ranks.append(Rank(rank, place.node, rank_of_node, place.cores, place.accelerator))
    return tuple(ranks)


def _does_not_fit(workers: int, site: Site) -> str:
    largest = max(group.count * len(group.slots) for group in site.groups)
    return (
        f"A member of {workers} workers does not fit: site '{site.name}' has {largest} worker slots that are alike. "
        f"Choose --workers {largest} or fewer, or describe more slots with --site."
    )
