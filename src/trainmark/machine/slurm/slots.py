"""The worker slots of a node that Slurm describes, in the numbers by which Linux knows its cores."""

from trainmark.machine.local_site import cpu_shares, split_evenly
from trainmark.machine.slurm.nodes import SlurmNode
from trainmark.machine.topology import Topology
from trainmark.spec.site import Slot


def node_slots(node: SlurmNode, here: Topology | None = None) -> tuple[Slot, ...]:
    """One slot per accelerator, else one per socket, or two halves of one; all with equally many cores.

    `here` is the topology of this machine, if it is such a node: then the cores are numbered as they really are.
    """
    sockets = cores_by_socket(node, here)
    if node.accelerators:
        shares = _accelerator_shares(node, sockets)
        return tuple(Slot(cores=share, accelerator=number) for number, share in enumerate(shares))
    return tuple(Slot(cores=share) for share in _alike(cpu_shares(sockets)))


def cores_by_socket(node: SlurmNode, here: Topology | None) -> tuple[tuple[int, ...], ...]:
    """The cores of each socket that jobs may have, one hardware thread each."""
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
    """Whether Slurm only knows how many CPUs the node has: it then takes each for a socket."""
    return node.cores_per_socket == 1 and node.sockets > 2


def numbering_is_known(node: SlurmNode, here: Topology | None) -> bool:
    """Whether this machine is such a node and shows how its cores are numbered."""
    return here is not None and len(here.cores) == node.num_cores


def _core_numbers(node: SlurmNode, here: Topology | None) -> tuple[int, ...]:
    """Linux's numbers of the cores in Slurm's order, socket after socket.

    Slurm's own numbers are not Linux's. Most machines with x86 and Arm count one hardware thread of every core first,
    socket after socket (some, of Dell for example, go to and fro); on POWER the threads of a core are neighbours.
    """
    if here is not None and numbering_is_known(node, here):
        return here.cores
    step = node.threads_per_core if node.architecture.startswith("ppc") else 1
    return tuple(core * step for core in range(node.num_cores))


def _accelerator_shares(node: SlurmNode, sockets: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Each accelerator's cores: a share of those of the sockets that it is attached to."""
    attached = [each.sockets for each in node.accelerators]
    named = [socket for each in attached for socket in each]
    apart = len(named) == len(set(named)) and all(attached) and all(socket < len(sockets) for socket in named)
    if len(sockets) != node.sockets or not apart:
        return _alike(_spread(sum(each.number for each in node.accelerators), sockets))
    return _alike(
        [
            share
            for each in node.accelerators
            for share in _spread(each.number, tuple(sockets[socket] for socket in each.sockets))
        ]
    )


def _spread(number: int, sockets: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Shares of the sockets' cores, each within one socket where these can be shared out evenly."""
    cores = tuple(core for socket in sockets for core in socket)
    each, rest = divmod(number, len(sockets))
    if rest or each > min(len(socket) for socket in sockets):
        return split_evenly(cores, min(number, len(cores)))
    return [share for socket in sockets for share in split_evenly(socket, each)]


def _alike(shares: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All shares as large as the smallest: Slurm gives every task of a job equally many cores."""
    size = min(len(share) for share in shares)
    return [share[:size] for share in shares]
