"""Worker slots of a node that Slurm describes, in Linux's core numbers."""

from trainmark.machine.local_site import cpu_shares, split_evenly
from trainmark.machine.slurm.nodes import SlurmNode
from trainmark.machine.topology import Topology
from trainmark.spec.site import Slot


def node_slots(node: SlurmNode, here: Topology | None = None) -> tuple[Slot, ...]:
    """One slot per accelerator, else one per socket, or two halves of one; all with the same number of cores.

    `here` is the topology of this machine, if it is such a node: then core numbers are the actual ones.
    """
    sockets = cores_by_socket(node, here)
    if node.accelerators:
        shares = _accelerator_shares(node, sockets)
        return tuple(Slot(cores=share, accelerator=number) for number, share in enumerate(shares))
    return tuple(Slot(cores=share) for share in _equalised(cpu_shares(sockets)))


def cores_by_socket(node: SlurmNode, here: Topology | None) -> tuple[tuple[int, ...], ...]:
    """Returns the cores of each socket available to jobs, one hardware thread each."""
    numbers = _core_numbers(node, here)
    free = [
        tuple(
            numbers[core]
            for core in range(socket * node.cores_per_socket, (socket + 1) * node.cores_per_socket)
            if core not in node.reserved_cores
        )
        for socket in range(node.sockets)
    ]
    usable = tuple(socket for socket in free if socket) or (numbers[:1],)
    everything = tuple(core for socket in usable for core in socket)
    if is_flat(node) or node.cpus < node.num_cores:
        return (everything[: node.cpus],)
    return usable


def is_flat(node: SlurmNode) -> bool:
    """Whether Slurm only has the node's CPU count: it then reports each CPU as a socket."""
    return node.cores_per_socket == 1 and node.sockets > 2


def numbering_is_known(node: SlurmNode, here: Topology | None) -> bool:
    """Whether this machine is such a node, so that its core numbers are known."""
    return here is not None and len(here.cores) == node.num_cores


def _core_numbers(node: SlurmNode, here: Topology | None) -> tuple[int, ...]:
    """Returns Linux's core numbers in Slurm's order, socket by socket.

    Slurm's numbers are abstract. Most x86 and Arm machines number one hardware thread of every core first, socket by
    socket (some, such as Dell's, alternate between sockets); on POWER the threads of a core are consecutive.
    """
    if here is not None and numbering_is_known(node, here):
        return here.cores
    step = node.threads_per_core if node.architecture.startswith("ppc") else 1
    return tuple(core * step for core in range(node.num_cores))


def _accelerator_shares(node: SlurmNode, sockets: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Returns each accelerator's cores: a share of the sockets that it is attached to."""
    attached = [each.sockets for each in node.accelerators]
    named = [socket for each in attached for socket in each]
    apart = len(named) == len(set(named)) and all(attached) and all(socket < len(sockets) for socket in named)
    if len(sockets) != node.sockets or not apart:
        return _equalised(_spread(sum(each.number for each in node.accelerators), sockets))
    return _equalised(
        [
            share
            for each in node.accelerators
            for share in _spread(each.number, tuple(sockets[socket] for socket in each.sockets))
        ]
    )


def _spread(number: int, sockets: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Splits the sockets' cores, each part within one socket if they divide evenly."""
    cores = tuple(core for socket in sockets for core in socket)
    each, rest = divmod(number, len(sockets))
    if rest or each > min(len(socket) for socket in sockets):
        return split_evenly(cores, min(number, len(cores)))
    return [share for socket in sockets for share in split_evenly(socket, each)]


def _equalised(shares: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Cuts all shares to the smallest: Slurm gives every task of a job the same number of cores."""
    size = min(len(share) for share in shares)
    return [share[:size] for share in shares]
