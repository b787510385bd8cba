"""mpi: gradients are averaged by MPI_Allreduce, over workers that mpirun or srun started as one MPI job."""

import os
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.train.torch.communication.averaged_gradients import AveragedGradients, WireReduction
from trainmark.train.torch.communication.wire import Encoder, message_wire_of
from trainmark.train.torch.protocols import WorkerGroup

if TYPE_CHECKING:
    from mpi4py import MPI

# Shared memory and networks that bypass the kernel: no TCP socket counts these bytes.
UNCOUNTED = "MPI sends gradients through shared memory or its own network stack, where bytes are not counted"

# Open MPI busy-waits on the core that computes the next gradients, which takes half of it. With yield_when_idle, it
# leaves the core to the backward pass. A value set by the user is kept.
YIELD = ("OMPI_MCA_mpi_yield_when_idle", "1")


def build(workers: WorkerGroup, settings: TrainConfig) -> AveragedGradients:
    """All-reduce by MPI (mpi4py), in fp32, over workers started by mpirun or srun --mpi=pmix."""
    assert settings.communication_precision == "fp32", "checked by the plan"
    if workers.size == 1:
        return AveragedGradients(workers, None)
    reduction = WireReduction(workers, message_wire_of(settings), partial(_sum, join_world(workers)))
    return AveragedGradients(workers, reduction, bytes_uncounted=UNCOUNTED)


def join_world(workers: WorkerGroup) -> "MPI.Intracomm":
    """Returns a communicator of all workers; raises if MPI ranks differ from ours."""
    _initialise()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (workers.rank, workers.size):
        raise TrainmarkError(
            f"This is worker {workers.rank} of {workers.size}, but its MPI rank is {world.rank} of {world.size}. Start "
            "the workers with the mpirun of mpi4py's MPI library, or with srun --mpi=pmix (slurm.mpi in the site file)."
        )
    return world.Dup()  # keeps our messages apart from those of other users of MPI in these processes


def _initialise() -> None:
    """Initialises MPI for calls from one thread at a time: the one that exchanges buckets."""
    os.environ.setdefault(*YIELD)
    try:
        import mpi4py

        mpi4py.rc.thread_level = "serialized"
        from mpi4py import MPI
    except ModuleNotFoundError:
        raise TrainmarkError(
            "train.communication=mpi needs mpi4py, which is not installed on the nodes. Install it there: "
            "pip install 'trainmark[mpi]'."
        ) from None
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[-1]
        raise TrainmarkError(
            f"mpi4py cannot load an MPI library: {reason}. Load your MPI module, or install one (Debian: libopenmpi3)."
        ) from None
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise TrainmarkError(
            "This MPI library does not support MPI_THREAD_SERIALIZED, but gradients are exchanged during backward. "
            "Choose another MPI library, or --set train.communication=allreduce."
        )


def _sum(world: "MPI.Intracomm", values: Tensor, encoder: Encoder) -> None:
    """Sums the values over all workers in place; fp32 needs no encoding."""
    from mpi4py import MPI

    world.Allreduce(MPI.IN_PLACE, values.numpy(), op=MPI.SUM)
