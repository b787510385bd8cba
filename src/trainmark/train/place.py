"""The place of this process: which rank it is, and which cores and accelerator are its own."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from trainmark.machine.topology import pin_to, read_topology
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.units import counted, show_cores


class Teller(NamedTuple):
    """The variables by which a process learns its rank, the number of ranks, and its number on its node."""

    rank: str
    size: str
    rank_of_node: str | None = None


# The first whose variable is set. Open MPI's mpirun, then Hydra and what is made from it.
TELLERS = {
    "slurm": (Teller("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),),
    "mpi": (
        Teller("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        Teller("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ),
}


def find_own_rank(named: str, ranks: tuple[Rank, ...], environment: Mapping[str, str]) -> Rank:
    """The rank that `named` is: by its number, or by the program that assigned it."""
    if named.isdigit():
        return ranks[int(named)]
    teller = next((each for each in TELLERS[named] if each.rank in environment), None)
    if teller is None:
        raise PlanError(
            f"This process should learn its rank from {named}, but none of "
            f"{', '.join(each.rank for each in TELLERS[named])} is set. Start it by the job.sh of the run's folder."
        )
    size = int(environment.get(teller.size, len(ranks)))
    if size != len(ranks):
        raise PlanError(
            f"{named} started {size} processes, but the member has {len(ranks)} workers. "
            "Start it by the job.sh of the run's folder."
        )
    rank = ranks[int(environment[teller.rank])]
    if teller.rank_of_node is not None:
        on_node = int(environment.get(teller.rank_of_node, rank.rank_of_node))
        if on_node != rank.rank_of_node:
            raise PlanError(
                f"{named} made rank {rank.rank} number {on_node} of its node, but the plan made it number "
                f"{rank.rank_of_node}: two ranks would share cores. Start it by the job.sh of the run's folder."
            )
    return rank


def take_place(rank: Rank, record: JobRecord, *, told_by: str) -> Rank:
    """The rank with the cores that it really has: its slot's, or those that Slurm has bound it to."""
    if record.config.launch.launcher == "slurm":
        _choose_accelerator(rank, record.job.ranks)
        if record.site.slurm.binding == "slurm":
            rank = rank._replace(cores=_bound_cores(rank, record.job.ranks))
    elif told_by == "mpi" and rank.accelerator is not None:
        # As launch/commands.py does where each rank can be given variables of its own.
        os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(rank.accelerator)}
    pin_to(rank.cores)
    return rank


def _bound_cores(rank: Rank, ranks: tuple[Rank, ...]) -> tuple[int, ...]:
    """One hardware thread of each core that Slurm has bound this rank to, or its share of those it gave to the node.

    Where only task/cgroup confines tasks, all ranks of a node see the cores of all of them.
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
    """Of the devices that Slurm gave to the member's ranks on this node, this rank sees its own alone.

    Where Slurm shows more of them than the member has ranks here, other members use the rest: then the plan decides.
    """
    given = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    if rank.accelerator is None or len(given) == 1:
        return
    on_node = sum(each.node == rank.node for each in ranks)
    number = rank.rank_of_node if len(given) <= on_node else rank.accelerator
    if not given:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank.accelerator)
    elif number < len(given):
        os.environ["CUDA_VISIBLE_DEVICES"] = given[number]
    else:
        raise PlanError(
            f"Rank {rank.rank} is number {number} of its node, but Slurm gave the node accelerators "
            f"{','.join(given)}. Correct groups.gres and the slots in the site file."
        )
