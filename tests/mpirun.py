"""A real mpirun for tests, which are skipped without one."""

import os
import shutil
from pathlib import Path

import pytest

# Open MPI refuses to run as root without both.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def require_mpirun(*names: str, package: str = "openmpi-bin") -> str:
    """Returns the program's path; skips the test if it is missing, or fails it if TRAINMARK_REQUIRE_CLUSTER=1."""
    found = next((path for name in names or ("mpirun",) if (path := shutil.which(name))), None)
    if found is not None:
        return found
    missing = f"needs {' or '.join(names or ('mpirun',))} (Debian: {package})"
    if os.environ.get("TRAINMARK_REQUIRE_CLUSTER") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def mpich_environment(folder: Path) -> dict[str, str]:
    """Returns variables that select MPICH's mpirun and library, also if Open MPI is installed."""
    hydra = require_mpirun("mpirun.mpich", "mpiexec.hydra", package="mpich")
    (folder / "bin").mkdir()
    mpirun = folder / "bin" / "mpirun"
    mpirun.write_text(f'#!/bin/sh\nexec {hydra} "$@"\n')  # no symlink: Hydra finds its other programs by its own path
    mpirun.chmod(0o755)
    for library in Path("/usr/lib").glob("*/libmpich.so.12"):  # Debian's name
        (folder / "bin" / "libmpi.so.12").symlink_to(library)
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(folder / "bin"),
        "MPI4PY_MPIABI": "mpich",
    }
