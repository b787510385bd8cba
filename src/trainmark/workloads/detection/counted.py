"""A count that travels with a model to its device: images, and regions of them that went through the box head."""

import torch
from torch import Tensor, nn


class RegionCount(nn.Module):
    """Two sums in int64, which nothing converts to another format or averages over workers."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64), persistent=False)

    def add(self, images: int, regions: int) -> None:
        """Counts one batch, without waiting for the device."""
        self.seen[0].add_(images)
        self.seen[1].add_(regions)

    def take(self) -> tuple[int, int]:
        """Images and regions since the last call."""
        images, regions = self.seen.tolist()
        self.seen.zero_()
        return images, regions
