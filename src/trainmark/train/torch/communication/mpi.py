"""mpi: gradients are averaged by MPI's own all-reduce, among workers that mpirun or srun has started as one MPI job."""

import os
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.train.torch.communication.averaged_gradients import AveragedGradients, StagedReduction
from trainmark.train.torch.communication.wire import Writer, message_wire_of
from trainmark.train.torch.protocols import Peers

if TYPE_CHECKING:
    from mpi4py import MPI

# Memory that ranks of a node share, and networks that the kernel does not see: no TCP socket counts these bytes.
UNSEEN = "MPI moves gradients through shared memory or its own network code, where bytes are not counted"

# Open MPI waits by asking again and again, on the very core that computes the next gradients: half of it is lost. Asked
# to yield, it leaves the core to the backward pass. A user's own choice stands.
YIELD = ("OMPI_MCA_mpi_yield_when_idle", "1")


def build(peers: Peers, settings: TrainConfig) -> AveragedGradients:
    """All-reduce by MPI itself (mpi4py), in fp32, among workers started by mpirun or srun --mpi=pmix."""
    assert settings.communication_precision == "fp32", "the plan has checked it"
    if peers.size == 1:
        return AveragedGradients(peers, None)
    join = StagedReduction(peers, message_wire_of(settings), partial(_sum, join_world(peers)))
    return AveragedGradients(peers, join, bytes_unseen=UNSEEN)


def join_world(peers: Peers) -> "MPI.Intracomm":
    """All workers as MPI knows them, each with the rank that it has for us."""
    _initialise()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (peers.rank, peers.size):
        raise TrainmarkError(
            f"This is worker {peers.rank} of {peers.size}, but MPI calls it {world.rank} of {world.size}. Start the "
            "workers by the mpirun of the MPI library that mpi4py loads, or by srun --mpi=pmix (slurm.mpi of the site)."
        )
    return world.Dup()  # messages of others who use MPI in these processes cannot meet ours


def _initialise() -> None:
    """MPI is ready, and one thread at a time may call it: here the one that exchanges buckets."""
    os.environ.setdefault(*YIELD)
    try:
        import mpi4py

        mpi4py.rc.thread_level = "serialized"
        from mpi4py import MPI
    except ModuleNotFoundError:
        raise TrainmarkError(
            "train.communication=mpi needs mpi4py, which is not installed where the workers run. Install it there: "
            "pip install 'trainmark[mpi]'."
        ) from None
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[-1]
        raise TrainmarkError(
            f"mpi4py cannot load an MPI library: {reason}. Load your MPI module, or install one (Debian: libopenmpi3)."
        ) from None
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise TrainmarkError(
            "This MPI library lets only one thread call it, but gradients are exchanged beside the backward pass. "
            "Choose another MPI library, or --set train.communication=allreduce."
        )


def _sum(world: "MPI.Intracomm", values: Tensor, writer: Writer) -> None:
    """The values are the sum over all workers. They travel as they are stored, so there is nothing to write."""
    from mpi4py import MPI

    world.Allreduce(MPI.IN_PLACE, values.numpy(), op=MPI.SUM)
