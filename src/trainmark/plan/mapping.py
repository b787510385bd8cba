"""Solves Eq. 5 and maps members → nodes → ranks → cores, including the use of idle slots."""

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
    """Returns AI500's default, the slots per node; 1 on a single node without accelerators, to form an ensemble."""
    if site.num_nodes == 1 and not site.has_accelerators:
        return 1
    return min(len(group.slots) for group in site.groups)


def solve_scale(choice: EnsembleChoices, site: Site) -> Scale:
    """Returns M, P and system scale from the choices, the rest from the site."""
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
            f"A system scale of {scale} is not divisible by {part} {noun}s. "
            f"Choose {flag} {below}{f' or {above}' if above else ''}, or another --system-scale."
        )
    return scale // part


def _divisors_around(scale: int, part: int) -> tuple[int, int | None]:
    below = next(d for d in range(min(part, scale), 0, -1) if scale % d == 0)
    above = next((d for d in range(part, scale + 1) if scale % d == 0), None)
    return below, above


class _Place(NamedTuple):
    """The position of a worker on its node, before cores are assigned."""

    node: str
    number: int


def map_members(scale: Scale, site: Site, launch: LaunchConfig) -> Plan:
    """Assigns each member to a lane of slots: whole nodes if it needs several, else side by side on a node."""
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
    """Yields groups of `workers` slots; a member that spans nodes shares none of them."""
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
    """Returns the number of adjacent slots per worker: as many as all workers of the group can have equally.

    It is 1 for slots with accelerators and for Slurm, and at most what `launch.threads` fills.
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
        f"A member of {workers} workers does not fit: site '{site.name}' has {largest} identical worker slots. "
        f"Choose --workers {largest} or fewer, or define more slots with --site."
    )
