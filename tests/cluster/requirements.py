"""What a machine lacks for a test cluster."""

import os
import shutil
import subprocess

from tests.cluster.nodes import NAMESPACES

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "ip", "tc", "unshare", "nsenter", "mount", "hostname")


def find_missing(*programs: str) -> str | None:
    """What this machine lacks for a test cluster and the given programs, in words; None if all is there."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    lacking = [program for program in (*PROGRAMS, *programs) if shutil.which(program) is None]
    if lacking:
        return f"a test cluster needs {', '.join(lacking)} (Debian: slurm-wlm munge iproute2, for MPI libopenmpi-dev)"
    trial = ["unshare", *NAMESPACES, "--fork", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    made = subprocess.run(trial, capture_output=True, text=True)
    if made.returncode:
        return f"a test cluster needs namespaces and mounts: {made.stderr.strip()}"
    return None
