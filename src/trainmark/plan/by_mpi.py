"""Why gradients cannot go over MPI, where they cannot: each reason comes with the nearest valid choice."""

from collections.abc import Iterator
from importlib.util import find_spec

from trainmark.spec.config import RunConfig
from trainmark.spec.site import Site

BY_LIBRARY = "--set train.communication=allreduce"


def reasons_against_mpi(config: RunConfig, site: Site) -> Iterator[str]:
    """Refusals of train.communication=mpi, if it was chosen."""
    train, launcher = config.train, config.launch.launcher
    if train.communication != "mpi":
        return
    if launcher == "local":
        yield (
            "train.communication=mpi joins workers that MPI has started, but the launcher 'local' starts them itself. "
            f"Choose --launcher mpi, or {BY_LIBRARY}."
        )
    if launcher == "slurm" and site.slurm.starter == "srun" and site.slurm.mpi in (None, "none"):
        yield (
            "train.communication=mpi needs workers that MPI can tell of each other, but srun starts them without. "
            f'Set slurm.mpi = "pmix" in the site file, or choose {BY_LIBRARY}.'
        )
    if train.communication_precision != "fp32":
        yield (
            f"MPI adds up gradients in fp32, but train.communication_precision is {train.communication_precision}. "
            f"Choose --set train.communication_precision=fp32, or {BY_LIBRARY}."
        )
    if site.has_accelerators:
        yield (
            "train.communication=mpi adds up gradients in the memory of the host, but they lie on accelerators. "
            f"Choose {BY_LIBRARY}."
        )
    if not site.python and not site.container and find_spec("mpi4py") is None:
        yield (
            "train.communication=mpi needs mpi4py, which is not installed. Install it: pip install 'trainmark[mpi]', "
            f"or choose {BY_LIBRARY}."
        )
