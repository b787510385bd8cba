"""Provenance: software versions, read without importing the packages, and a description of the machine."""

import os
import platform
import socket
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import trainmark
from trainmark.machine.accelerators import find_accelerators
from trainmark.machine.topology import instruction_sets, read_topology
from trainmark.spec.engine_offer import find_engine
from trainmark.spec.units import show_cores

PACKAGES = ("numpy", "scipy", "pydantic", "nvidia-ml-py", "mpi4py")

# Only these variables are recorded: a user's environment may contain tokens and passwords.
RECORDED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "GLOO_SOCKET_IFNAME",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MALLOC_CONF",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_NUM_THREADS",
    "NCCL_SOCKET_IFNAME",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_NUM_THREADS",
)


def describe_software(engine: str = "torch") -> dict[str, str]:
    """Returns the versions of Python, operating system and packages, the engine's first."""
    return {
        "trainmark": trainmark.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        **{package: _version_of(package) for package in (*find_engine(engine).packages, *PACKAGES)},
    }


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unavailable: not installed as a package"


def recorded_environment() -> dict[str, str]:
    """Returns this process's values of the variables that affect measurements."""
    return {name: os.environ[name] for name in RECORDED_VARIABLES if name in os.environ}


def code_version() -> str:
    """Returns trainmark's version, with the git commit in a checkout."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return trainmark.__version__
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return trainmark.__version__
    return f"{trainmark.__version__}+{found}"


def describe_machine() -> dict[str, Any]:
    """Host, processor, cores by NUMA domain, memory and accelerators."""
    topology = read_topology()
    return {
        "host": socket.gethostname(),
        "cpu": topology.cpu_model,
        "architecture": platform.machine(),
        "instruction_sets": instruction_sets(),
        "logical_cpus": topology.logical_cpus,
        "cores": len(topology.cores),
        "numa_domains": [show_cores(domain) for domain in topology.numa_domains],
        "memory_bytes": topology.memory_bytes,
        "accelerators": [asdict(accelerator) for accelerator in find_accelerators()],
    }
