"""This machine as a single-node Site: its worker slots and their cores."""

import socket

from trainmark.machine.accelerators import Accelerator, find_accelerators
from trainmark.machine.allocators import installed_allocators
from trainmark.machine.topology import Topology, read_topology
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site, Slot


def local_site() -> Site:
    """Returns the site used without `--site`."""
    accelerators = find_accelerators()
    slots = make_slots(read_topology(), accelerators)
    host = socket.gethostname()
    bf16 = all(accelerator.has_bf16 for accelerator in accelerators)
    group = NodeGroup(names=(host,), count=1, slots=slots, bf16=bf16)
    return Site(name=host, groups=(group,), allocators=installed_allocators())


def make_slots(topology: Topology, accelerators: tuple[Accelerator, ...]) -> tuple[Slot, ...]:
    """One slot per accelerator; else one per NUMA domain, a single domain split in two for an ensemble."""
    if accelerators:
        shares = split_evenly(topology.cores, len(accelerators))
        return tuple(Slot(cores=share, accelerator=a.index) for share, a in zip(shares, accelerators, strict=True))
    return tuple(Slot(cores=share) for share in cpu_shares(topology.numa_domains))


def cpu_shares(domains: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Returns the cores of each domain, or two halves of a single one."""
    if len(domains) == 1 and len(domains[0]) >= 2:
        return split_evenly(domains[0], 2)
    return list(domains)


def split_evenly(cores: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Splits cores into equal contiguous parts; a remainder stays idle."""
    size = len(cores) // parts
    if size == 0:
        raise PlanError(
            f"{parts} accelerators need a core each, but this process may use {len(cores)}. "
            "Request more cores, or fewer accelerators in CUDA_VISIBLE_DEVICES."
        )
    return [cores[i * size : (i + 1) * size] for i in range(parts)]
