"""The shape of a cluster."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil


@dataclass(frozen=True)
class Shape:
    """The number of nodes and their resources."""

    num_nodes: int
    cores_per_node: int
    memory_per_node_mebibytes: int
    local_storage_mebibytes: int
    max_array_size: int
    can_bind: bool
    gpus_per_node: int = 0  # fake: Slurm allocates them, but there is no device
    slurm_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def node_names(self) -> list[str]:
        """n1, n2, …"""
        return [f"n{number}" for number in range(1, self.num_nodes + 1)]


def make_shape(
    nodes: int,
    cores: int | None,
    local_storage_mebibytes: int,
    max_array_size: int,
    gpus: int,
    slurm_settings: Mapping[str, str],
) -> Shape:
    """Returns a shape that fits this machine: nodes split its memory, but each has all usable cores."""
    usable_cores = len(os.sched_getaffinity(0))
    cores_per_node = cores or usable_cores
    return Shape(
        num_nodes=nodes,
        cores_per_node=cores_per_node,
        memory_per_node_mebibytes=psutil.virtual_memory().total // nodes // 2**20,
        local_storage_mebibytes=local_storage_mebibytes,
        max_array_size=max_array_size,
        can_bind=cores_per_node <= usable_cores,
        gpus_per_node=gpus,
        slurm_settings=dict(slurm_settings),
    )
