"""Placement of this process: which rank it is, and which cores and accelerator it is bound to."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from trainmark.machine.resident import limit_memory
from trainmark.machine.topology import pin_to, read_topology
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.units import counted, show_cores


class RankVariables(NamedTuple):
    """The environment variables that hold rank, number of ranks, and rank within the node."""

    rank: str
    size: str
    rank_of_node: str | None = None


# The first that is set is used: Open MPI's mpirun, then Hydra and its derivatives.
RANK_VARIABLES = {
    "slurm": (RankVariables("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),),
    "mpi": (
        RankVariables("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        RankVariables("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ),
}


def find_rank(name: str, ranks: tuple[Rank, ...], environment: Mapping[str, str]) -> Rank:
    """Returns the rank called `name`: a number, or the program that assigned it."""
    if name.isdigit():
        return ranks[int(name)]
    variables = next((each for each in RANK_VARIABLES[name] if each.rank in environment), None)
    if variables is None:
        raise PlanError(
            f"The rank of this process should come from {name}, but none of "
            f"{', '.join(each.rank for each in RANK_VARIABLES[name])} is set. Start it with job.sh in the run folder."
        )
    size = int(environment.get(variables.size, len(ranks)))
    if size != len(ranks):
        raise PlanError(
            f"{name} started {size} processes, but the member has {len(ranks)} workers. "
            "Start it with job.sh in the run folder."
        )
    rank = ranks[int(environment[variables.rank])]
    if variables.rank_of_node is not None:
        on_node = int(environment.get(variables.rank_of_node, rank.rank_of_node))
        if on_node != rank.rank_of_node:
            raise PlanError(
                f"{name} made rank {rank.rank} number {on_node} on its node, but the plan made it number "
                f"{rank.rank_of_node}: two ranks would share cores. Start it with job.sh in the run folder."
            )
    return rank


def bind_rank(rank: Rank, record: JobRecord, *, assigned_by: str) -> Rank:
    """Binds this process to its cores and accelerator; returns the rank with the cores it is bound to."""
    if record.config.launch.launcher == "slurm":
        _choose_accelerator(rank, record.job.ranks)
        if record.site.slurm.binding == "slurm":
            rank = rank._replace(cores=_bound_cores(rank, record.job.ranks))
    elif assigned_by == "mpi" and rank.accelerator is not None:
        # As launch/commands.py does for ranks that can be given their own environment.
        os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(rank.accelerator)}
    pin_to(rank.cores)
    if rank.accelerator is None and record.config.launch.memory_gib is not None:
        limit_memory(record.config.launch.memory_gib)
    return rank


def _bound_cores(rank: Rank, ranks: tuple[Rank, ...]) -> tuple[int, ...]:
    """One hardware thread of each core that Slurm has bound this rank to, or its share of the node's allocated cores.

    With task/cgroup alone, every rank of a node sees the cores of all of them.
    """
    cores, wanted = sorted(read_topology().cores), len(rank.cores)
    on_node = sum(each.node == rank.node for each in ranks)
    if len(cores) not in (wanted, wanted * on_node):
        raise PlanError(
            f"Rank {rank.rank} should have {counted(wanted, 'core')}, but Slurm has bound it to cores "
            f'{show_cores(tuple(cores))}. Correct the slots in the site file, or set slurm.binding = "plan" there.'
        )
    first = 0 if len(cores) == wanted else rank.rank_of_node * wanted
    return tuple(cores[first : first + wanted])


def _choose_accelerator(rank: Rank, ranks: tuple[Rank, ...]) -> None:
    """Restricts this rank to one of the devices that Slurm allocated on this node.

    If more devices are visible than the member has ranks here, other members use the rest: then the plan decides.
    """
    visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    if rank.accelerator is None or len(visible) == 1:
        return
    on_node = sum(each.node == rank.node for each in ranks)
    number = rank.rank_of_node if len(visible) <= on_node else rank.accelerator
    if not visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank.accelerator)
    elif number < len(visible):
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[number]
    else:
        raise PlanError(
            f"Rank {rank.rank} is number {number} on its node, but Slurm allocated accelerators "
            f"{','.join(visible)}. Correct groups.gres and the slots in the site file."
        )
