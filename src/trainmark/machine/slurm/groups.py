"""Identical nodes as groups of a site."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from trainmark.machine.slurm.nodes import SlurmNode
from trainmark.machine.slurm.scontrol import SlurmPartition
from trainmark.machine.slurm.slots import node_slots
from trainmark.machine.topology import Topology
from trainmark.spec.site import NodeGroup, Slot

MIB_PER_GIB = 1024


class Kind(NamedTuple):
    """What identical nodes have in common."""

    partition: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    slots: tuple[Slot, ...]
    memory_gib_per_slot: float | None
    gres: tuple[str, ...]
    has_bf16: bool


@dataclass(frozen=True)
class IdenticalNodes:
    """Nodes of one kind, available or not; some may be in other partitions, too."""

    kind: Kind
    partition: SlurmPartition
    other_partitions: tuple[SlurmPartition, ...]
    up: tuple[SlurmNode, ...]
    out: tuple[SlurmNode, ...]
    topology: Topology | None  # of this machine, if it is one of them


class Here(NamedTuple):
    """This machine: its hostname and topology."""

    host: str
    topology: Topology


def group_identical_nodes(
    nodes: tuple[SlurmNode, ...], partitions: tuple[SlurmPartition, ...], here: Here | None = None
) -> list[IdenticalNodes]:
    """Groups nodes by kind: the default partition first, then by partition, larger groups first.

    A node of several partitions counts in the first one; nodes in no open partition are left out.
    """
    by_name = {partition.name: partition for partition in partitions if partition.is_open}
    order = {name: place for place, name in enumerate(by_name)}
    topologies = _topologies(nodes, here)
    found: dict[Kind, list[SlurmNode]] = {}
    for node in nodes:
        usable = [name for name in node.partitions if name in by_name]
        if usable:
            first = by_name[min(usable, key=order.__getitem__)]
            found.setdefault(_kind(node, first, topologies.get(_shape(node))), []).append(node)
    grouped = [
        IdenticalNodes(
            kind=kind,
            partition=by_name[kind.partition],
            other_partitions=_other_partitions(members, kind.partition, by_name),
            up=tuple(node for node in members if node.out is None),
            out=tuple(node for node in members if node.out is not None),
            topology=topologies.get(_shape(members[0])),
        )
        for kind, members in found.items()
    ]
    return sorted(grouped, key=lambda each: (order[each.kind.partition], -len(each.up)))


def _other_partitions(
    nodes: list[SlurmNode], but: str, by_name: dict[str, SlurmPartition]
) -> tuple[SlurmPartition, ...]:
    named = {name for node in nodes for name in node.partitions if name != but}
    return tuple(partition for name, partition in by_name.items() if name in named)


def _shape(node: SlurmNode) -> tuple[str, int, int, int]:
    return (node.architecture, node.sockets, node.cores_per_socket, node.threads_per_core)


def _topologies(nodes: tuple[SlurmNode, ...], here: Here | None) -> dict[tuple[str, int, int, int], Topology]:
    """Returns this machine's topology by the shape of its node."""
    if here is None:
        return {}
    short = here.host.split(".")[0]
    return {_shape(node): here.topology for node in nodes if short in (node.name, node.host.split(".")[0])}


def _kind(node: SlurmNode, partition: SlurmPartition, topology: Topology | None) -> Kind:
    slots = node_slots(node, topology)
    return Kind(
        partition=partition.name,
        sockets=node.sockets,
        cores_per_socket=node.cores_per_socket,
        threads_per_core=node.threads_per_core,
        slots=slots,
        memory_gib_per_slot=_memory_gib_per_slot(node, partition, slots),
        gres=tuple(dict.fromkeys(each.gres for each in node.accelerators)),
        has_bf16=all(each.has_bf16 for each in node.accelerators),
    )


def _memory_gib_per_slot(node: SlurmNode, partition: SlurmPartition, slots: tuple[Slot, ...]) -> float | None:
    """Returns the node's memory per slot, rounded down, within the partition's limits."""
    if node.memory_mib is None:
        return None
    mib = min(node.memory_mib, partition.max_memory_mib_per_node or node.memory_mib) // len(slots)
    if partition.max_memory_mib_per_cpu:
        mib = min(mib, partition.max_memory_mib_per_cpu * len(slots[0].cores))
    tenths = mib * 10 // MIB_PER_GIB
    return (tenths / 10 if tenths < 80 else float(tenths // 10)) or None


def as_node_groups(grouped: list[IdenticalNodes], local_storage: str | None) -> tuple[NodeGroup, ...]:
    """Returns the groups of a site, with unique node names."""
    groups: list[NodeGroup] = []
    for each in grouped:
        prefix = _new_prefix(each.kind.partition, {group.prefix for group in groups})
        groups.append(
            NodeGroup(
                prefix=prefix,
                count=len(each.up),
                partition=each.kind.partition,
                slots=each.kind.slots,
                memory_gib_per_slot=each.kind.memory_gib_per_slot,
                gres=each.kind.gres[0] if len(each.kind.gres) == 1 else "gpu",
                bf16=each.kind.has_bf16,
                local_storage=local_storage,
            )
        )
    return tuple(groups)


def _new_prefix(partition: str, taken: set[str]) -> str:
    """Returns an unused prefix of node names, from the partition. The final dash keeps names unique."""
    stem = re.sub(r"[^\w.-]", "-", partition, flags=re.ASCII).lstrip("-.") or "node"
    names = (f"{stem}-", *(f"{stem}-kind{number}-" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)
