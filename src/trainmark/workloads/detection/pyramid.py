"""Feature pyramid (Lin et al. 2017): features of all stages with the same channels, each with what coarser ones see."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class FeaturePyramid(nn.Module):
    """From the stages' features: as many levels of `channels`, from the finest on."""

    def __init__(self, channels_in: Sequence[int], channels: int) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Conv2d(each, channels, 1) for each in channels_in)
        self.outer = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in channels_in)
        for layer in (*self.inner, *self.outer):
            assert isinstance(layer, nn.Conv2d) and layer.bias is not None
            nn.init.kaiming_uniform_(layer.weight, a=1)  # no relu follows
            nn.init.zeros_(layer.bias)

    def forward(self, features: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The levels, each in the size of its stage."""
        merged = [inner(feature) for inner, feature in zip(self.inner, features, strict=True)]
        for level in range(len(merged) - 2, -1, -1):
            height, width = merged[level].shape[2:]
            merged[level] = merged[level] + F.interpolate(merged[level + 1], size=(height, width), mode="nearest")
        return tuple(outer(level) for outer, level in zip(self.outer, merged, strict=True))
