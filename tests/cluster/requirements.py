"""What a machine lacks for a test cluster, and what tests do then."""

import os
import shutil
import subprocess

import pytest

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


def require_cluster() -> None:
    """Skips the test where no cluster can run, or fails it where TRAINMARK_REQUIRE_CLUSTER=1 says that one must."""
    missing = find_missing()
    if missing and os.environ.get("TRAINMARK_REQUIRE_CLUSTER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
