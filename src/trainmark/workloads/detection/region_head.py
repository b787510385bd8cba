"""The head of a region proposal network: for each anchor, whether there is an object and how its box differs."""

import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.workloads.detection.anchors import RATIOS


class RegionHead(nn.Module):
    """One 3×3 and two 1×1 convolutions, the same for all levels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shared = nn.Conv2d(channels, channels, 3, padding=1)
        self.objectness = nn.Conv2d(channels, len(RATIOS), 1)
        self.deltas = nn.Conv2d(channels, 4 * len(RATIOS), 1)
        for layer in (self.shared, self.objectness, self.deltas):
            assert layer.bias is not None
            nn.init.normal_(layer.weight, std=0.01)  # Ren et al. 2015, 3.1.3
            nn.init.zeros_(layer.bias)

    def forward(self, levels: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Maps of each level's objectness [B, 3, H, W], then of each level's deltas [B, 3 · 4, H, W]."""
        seen = [F.relu(self.shared(level)) for level in levels]
        return (*map(self.objectness, seen), *map(self.deltas, seen))


def in_order_of_anchors(maps: Tensor, numbers: int) -> Tensor:
    """A map of the head as rows of `numbers`, in the order of the level's anchors: [B, anchors, numbers]."""
    return maps.permute(0, 2, 3, 1).reshape(len(maps), -1, numbers)
