"""Notes on each group of nodes in a drafted site."""

from collections import Counter

from trainmark.machine.slurm.groups import IdenticalNodes
from trainmark.machine.slurm.nodes import SlurmNode
from trainmark.machine.slurm.scontrol import SlurmPartition, SlurmSettings, fold_names
from trainmark.machine.slurm.slots import is_flat, numbering_is_known
from trainmark.spec.units import counted, show_duration

MAX_FEATURES = 8
MAX_NAMES_LENGTH = 200


def group_notes(group: IdenticalNodes, settings: SlurmSettings) -> tuple[str, ...]:
    """Returns the notes, the most important first."""
    return tuple(
        note
        for note in (
            _hardware(group),
            _unavailable(group.out),
            _other_partitions(group),
            _access(group),
            _whole_nodes(group, settings),
            _max_nodes(group),
            _features(group),
            _accelerator_types(group),
            _core_numbers(group, settings),
        )
        if note
    )


def count_states(nodes: tuple[SlurmNode, ...]) -> str:
    """Counts nodes by state: `2 drained, 1 down`."""
    return ", ".join(f"{number} {why}" for why, number in Counter(node.out or "up" for node in nodes).most_common())


def _hardware(group: IdenticalNodes) -> str:
    node = group.up[0]
    threads = f" × {node.threads_per_core} hardware threads" if node.threads_per_core > 1 else ""
    memory = f", {node.memory_mib // 1024} GiB for jobs" if node.memory_mib else ""
    devices = "".join(f", {each.number} × {each.gres}" for each in node.accelerators)
    sockets = "1 socket" if node.sockets == 1 else f"{node.sockets} sockets"
    return f"{_names(group.up)}: {sockets} × {node.cores_per_socket} cores{threads}{memory}{devices}."


def _names(nodes: tuple[SlurmNode, ...]) -> str:
    folded = fold_names(tuple(node.name for node in nodes))
    return folded if len(folded) <= MAX_NAMES_LENGTH else f"{folded[:MAX_NAMES_LENGTH]}…"


def _unavailable(nodes: tuple[SlurmNode, ...]) -> str:
    return f"Not counted, because they are unavailable: {_names(nodes)} ({count_states(nodes)})." if nodes else ""


def _other_partitions(group: IdenticalNodes) -> str:
    others = [
        f"{partition.name} ({_count_in(group.up, partition.name)}, {_limit(partition)})"
        for partition in group.other_partitions
    ]
    return f"These nodes are also in other partitions: {', '.join(others)}." if others else ""


def _count_in(nodes: tuple[SlurmNode, ...], partition: str) -> str:
    number = sum(partition in node.partitions for node in nodes)
    return "all" if number == len(nodes) else f"{number} of {len(nodes)}"


def _limit(partition: SlurmPartition) -> str:
    return "no time limit" if partition.max_minutes is None else f"up to {show_duration(60 * partition.max_minutes)}"


def _access(group: IdenticalNodes) -> str:
    partition = group.partition
    limits = [
        f"Only these {what} may use the partition: {', '.join(names)}."
        for what, names in (("accounts", partition.accounts), ("QoS", partition.qos))
        if names
    ]
    return " ".join(limits)


def _whole_nodes(group: IdenticalNodes, settings: SlurmSettings) -> str:
    if len(group.kind.slots) == 1 or not (group.partition.gives_whole_nodes or settings.gives_whole_nodes):
        return ""
    return (
        "Jobs get exclusive nodes here: use all slots of a node for one member (--workers "
        f"{len(group.kind.slots)}), or run all members in one job (--set launch.allocation=one)."
    )


def _max_nodes(group: IdenticalNodes) -> str:
    limit = group.partition.max_nodes
    return f"Jobs are limited to {counted(limit, 'node')}." if limit is not None and limit < len(group.up) else ""


def _features(group: IdenticalNodes) -> str:
    counts = Counter(feature for node in group.up for feature in set(node.features))
    some = sorted((-number, feature) for feature, number in counts.items() if number < len(group.up))
    if not some:
        return ""
    shown = ", ".join(f"{feature} ({-number})" for number, feature in some[:MAX_FEATURES])
    return (
        f"Features of some nodes only: {shown}{', …' * (len(some) > MAX_FEATURES)}. If their processors or "
        "accelerators differ, select nodes by slurm.options, such as --constraint=FEATURE, and correct `count`."
    )


def _accelerator_types(group: IdenticalNodes) -> str:
    if len(group.kind.gres) < 2:
        return ""
    types = ", ".join(group.kind.gres)
    return f"Accelerators of several types ({types}) are requested as one; members may differ in speed."


def _core_numbers(group: IdenticalNodes, settings: SlurmSettings) -> str:
    node = group.up[0]
    if is_flat(node):
        return "Slurm reports these nodes' CPUs, but not their sockets. Compare the slots with `lscpu` on a node."
    is_known = numbering_is_known(node, group.topology) or node.sockets == node.threads_per_core == 1
    if is_known or settings.binds_tasks:  # where Slurm binds, it chooses the cores
        return ""
    return (
        "Core numbers are an assumption: one hardware thread of every core first, socket by socket. "
        "Compare them with `lscpu --extended` on a node, or draft there: srun … trainmark machine --draft-site."
    )
