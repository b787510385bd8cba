"""What a machine lacks for a test cluster."""

import os
import shutil
import subprocess

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "ip", "tc", "unshare", "nsenter", "mount", "hostname")
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def find_missing() -> str | None:
    """The first thing that a test cluster needs and this machine lacks, in words; None if all is there."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    lacking = [program for program in PROGRAMS if shutil.which(program, path=SEARCH_PATH) is None]
    if lacking:
        return f"a test cluster needs {', '.join(lacking)} (Debian: slurm-wlm munge iproute2)"
    made = subprocess.run(
        [
            "unshare",
            "--net",
            "--uts",
            "--ipc",
            "--mount",
            "--pid",
            "--fork",
            "mount",
            "-t",
            "tmpfs",
            "none",
            "/dev/shm",
        ],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        return f"a test cluster needs namespaces and mounts: {made.stderr.strip()}"
    return None
