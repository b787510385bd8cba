"""Worker slots of another size: the same nodes and cores, divided anew."""

from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site, Slot


def with_slots_of(site: Site, cores: int | None) -> Site:
    """Returns the site with slots of this many cores on each node; the site itself if None.

    Cores that do not fill a slot stay idle.
    """
    if cores is None:
        return site
    return site.model_copy(update={"groups": tuple(_divided(group, cores, site.name) for group in site.groups)})


def _divided(group: NodeGroup, cores: int, site: str) -> NodeGroup:
    if group.has_accelerators:
        raise PlanError(
            f"Slots of {cores} cores are for CPUs, but the slots of '{site}' have accelerators. "
            "Choose a study without an axis of threads or processes."
        )
    of_node = tuple(dict.fromkeys(core for slot in group.slots for core in slot.cores))
    count = len(of_node) // cores
    if not count:
        raise PlanError(f"A slot of {cores} cores does not fit: nodes of '{site}' have {len(of_node)}. Choose fewer.")
    memory = group.memory_gib_per_slot
    return group.model_copy(
        update={
            "slots": tuple(Slot(cores=of_node[i * cores : (i + 1) * cores]) for i in range(count)),
            "memory_gib_per_slot": None if memory is None else memory * len(group.slots) / count,
        }
    )
