"""Eq. 5 solved, and members → nodes → ranks → cores: which slots a member's workers get, and who gets idle ones."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from trainmark.spec.config import EnsembleChoices, LaunchConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.site import NodeGroup, Site


class Scale(NamedTuple):
    """Members M, workers per member P, and their product, the system scale."""

    members: int
    workers: int
    system_scale: int


def default_workers(site: Site) -> int:
    """AI500's default, the slots of a node; on one machine without accelerators 1, to make an ensemble of it."""
    if site.num_nodes == 1 and not site.has_accelerators:
        return 1
    return min(len(group.slots) for group in site.groups)


def solve_scale(choice: EnsembleChoices, site: Site) -> Scale:
    """M, P and system scale from what was chosen and, for what was not, from the site."""
    members, workers, scale = choice.members, choice.workers, choice.system_scale
    if members is not None and workers is not None:
        product = members * workers
        if scale is not None and scale != product:
            raise PlanError(
                f"{members} members × {workers} workers = {product}, but the system scale is {scale}. "
                f"Choose --members and --workers whose product is {scale}, or pass --system-scale {product}."
            )
        return Scale(members, workers, product)
    if members is not None:
        if scale is None:
            workers = default_workers(site)
            return Scale(members, workers, members * workers)
        return Scale(members, _divide(scale, members, "member", "--members"), scale)
    if workers is None:
        workers = default_workers(site)
    if scale is None:
        scale = site.num_slots
    return Scale(_divide(scale, workers, "worker", "--workers"), workers, scale)


def _divide(scale: int, part: int, noun: str, flag: str) -> int:
    if scale % part:
        below, above = _divisors_around(scale, part)
        raise PlanError(
            f"A system scale of {scale} cannot be shared by {part} {noun}s: {scale} / {part} is not whole. "
            f"Choose {flag} {below}{f' or {above}' if above else ''}, or another --system-scale."
        )
    return scale // part


def _divisors_around(scale: int, part: int) -> tuple[int, int | None]:
    below = next(d for d in range(min(part, scale), 0, -1) if scale % d == 0)
    above = next((d for d in range(part, scale + 1) if scale % d == 0), None)
    return below, above


class _Place(NamedTuple):
    """One worker's place before cores are shared out: the n-th on its node."""

    node: str
    number: int


def map_members(scale: Scale, site: Site, launch: LaunchConfig) -> Plan:
    """Every member on a lane of slots: whole nodes where it needs several, else side by side on a node."""
    lanes: list[tuple[Rank, ...]] = []
    slots_used = 0
    for group in site.groups:
        found = list(islice(_lanes_of(group, scale.workers), scale.members - len(lanes)))
        share = _slots_per_worker(group, found, launch)
        lanes += [_ranks_of(group, lane, share) for lane in found]
        slots_used += len(found) * scale.workers * share
    if not lanes:
        raise PlanError(_does_not_fit(scale.workers, site))
    return Plan(
        members=scale.members,
        workers_per_member=scale.workers,
        system_scale=scale.system_scale,
        site=site.name,
        lanes=len(lanes),
        slots=site.num_slots,
        cores=site.num_cores,
        idle_slots=site.num_slots - slots_used,
        jobs=tuple(Job(member, member % len(lanes), lanes[member % len(lanes)]) for member in range(scale.members)),
    )


def _lanes_of(group: NodeGroup, workers: int) -> Iterator[list[_Place]]:
    """Groups of `workers` slots. A member never shares a node that it does not fill with one that spans nodes."""
    names, slots = group.node_names, len(group.slots)
    if workers <= slots:
        for name in names:
            for lane in range(slots // workers):
                yield [_Place(name, lane * workers + i) for i in range(workers)]
    else:
        nodes_each = -(-workers // slots)
        for first in range(0, len(names) - nodes_each + 1, nodes_each):
            spread = names[first : first + nodes_each]
            # Evenly over the nodes: 6 workers on nodes of 4 slots are 3 + 3, not 4 + 2.
            shares = [workers // nodes_each + (i < workers % nodes_each) for i in range(nodes_each)]
            yield [_Place(name, number) for name, share in zip(spread, shares, strict=True) for number in range(share)]


def _slots_per_worker(group: NodeGroup, lanes: list[list[_Place]], launch: LaunchConfig) -> int:
    """How many neighbouring slots a worker gets: as many as all workers of the group can have alike.

    A slot with an accelerator is a worker's own, and Slurm gives a worker the cores of one slot. Who asks for fewer
    threads than that many slots have cores gets no more slots than these threads fill.
    """
    if not lanes or not launch.shares_idle_cores or group.shared_cores or group.has_accelerators:
        return 1
    share = len(group.slots) // max(place.number + 1 for lane in lanes for place in lane)
    fewest_cores = min(len(slot.cores) for slot in group.slots)
    return share if launch.threads is None else min(share, -(-launch.threads // fewest_cores))


def _ranks_of(group: NodeGroup, lane: list[_Place], share: int) -> tuple[Rank, ...]:
    ranks: list[Rank] = []
    on_node: dict[str, int] = {}
    for rank, place in enumerate(lane):
        rank_of_node = on_node.get(place.node, 0)
        on_node[place.node] = rank_of_node + 1
        slots = group.slots[place.number * share : (place.number + 1) * share]
        cores = slots[0].cores if share == 1 else tuple(core for slot in slots for core in slot.cores)
        ranks.append(Rank(rank, place.node, rank_of_node, cores, slots[0].accelerator))
    return tuple(ranks)


def _does_not_fit(workers: int, site: Site) -> str:
    largest = max(group.count * len(group.slots) for group in site.groups)
    return (
        f"A member of {workers} workers does not fit: site '{site.name}' has {largest} worker slots that are alike. "
        f"Choose --workers {largest} or fewer, or describe more slots with --site."
    )
