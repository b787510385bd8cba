"""This machine in one record, for a Result."""

import platform
import socket
from dataclasses import asdict
from typing import Any

from trainmark.machine.accelerators import find_accelerators
from trainmark.machine.topology import instruction_sets, read_topology
from trainmark.spec.units import show_cores


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
