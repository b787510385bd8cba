"""A real mpirun for tests, and what they do where there is none."""

import os
import shutil
from pathlib import Path

import pytest

# Open MPI does not start anything for root unless told twice.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def require_mpirun(*names: str, package: str = "openmpi-bin") -> str:
    """The path of the program; without it the test is skipped, or fails if TRAINMARK_REQUIRE_CLUSTER=1."""
    found = next((path for name in names or ("mpirun",) if (path := shutil.which(name))), None)
    if found is not None:
        return found
    missing = f"needs {' or '.join(names or ('mpirun',))} (Debian: {package})"
    if os.environ.get("TRAINMARK_REQUIRE_CLUSTER") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def hydras_environment(folder: Path) -> dict[str, str]:
    """Variables by which mpirun and MPI are those of MPICH, also where Open MPI is installed beside it."""
    hydra = require_mpirun("mpirun.mpich", "mpiexec.hydra", package="mpich")
    (folder / "bin").mkdir()
    mpirun = folder / "bin" / "mpirun"
    mpirun.write_text(f'#!/bin/sh\nexec {hydra} "$@"\n')  # no link: Hydra looks for its other programs beside itself
    mpirun.chmod(0o755)
    for library in Path("/usr/lib").glob("*/libmpich.so.12"):  # only Debian calls it so
        (folder / "bin" / "libmpi.so.12").symlink_to(library)
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(folder / "bin"),
        "MPI4PY_MPIABI": "mpich",
    }
