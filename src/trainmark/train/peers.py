"""Peers: the workers that one worker joins gradients with, and where they run."""

from dataclasses import dataclass

import torch
from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Peers:
    """A process group, this worker's place in it, and the node of each of its workers. Alone, there is no group."""

    rank: int
    nodes: tuple[str, ...]
    group: ProcessGroup | None
    device: torch.device

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.nodes)
