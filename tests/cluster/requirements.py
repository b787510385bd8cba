"""Requirements of a test cluster, and skipping tests without them."""

import os
import shutil
import subprocess

import pytest

from tests.cluster.nodes import NAMESPACES

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "ip", "tc", "unshare", "nsenter", "mount", "hostname")


def find_missing(*programs: str) -> str | None:
    """Returns what this machine lacks for a test cluster with the given programs; None if nothing."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    absent = [program for program in (*PROGRAMS, *programs) if shutil.which(program) is None]
    if absent:
        return f"a test cluster needs {', '.join(absent)} (Debian: slurm-wlm munge iproute2, for MPI libopenmpi-dev)"
    trial = ["unshare", *NAMESPACES, "--fork", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    made = subprocess.run(trial, capture_output=True, text=True)
    if made.returncode:
        return f"a test cluster needs namespaces and mounts: {made.stderr.strip()}"
    return None


def require_cluster(*programs: str) -> None:
    """Skips the test if no cluster can run here; fails it if TRAINMARK_REQUIRE_CLUSTER=1."""
    missing = find_missing(*programs)
    if missing and os.environ.get("TRAINMARK_REQUIRE_CLUSTER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
