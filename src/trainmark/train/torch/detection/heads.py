"""The layers on top of a backbone: feature pyramid, region head and box head, and the count of regions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.train.torch.detection.boxes import RATIOS


@dataclass(frozen=True)
class DetectorSettings:
    """The settings of a two-stage detector, apart from layer sizes."""

    anchor_scale: float  # side of an anchor, in strides of its level
    proposals_before_nms: int  # of each level; training
    proposals_after_nms: int  # of each image; training
    eval_proposals_before_nms: int
    eval_proposals_after_nms: int
    proposal_overlap: float  # above it, boxes are suppressed
    sampled_anchors: int  # of each image; training
    sampled_regions: int  # of each image; training
    detections: int  # of each image; evaluation
    score_threshold: float
    detection_overlap: float  # above it, boxes of the same class are suppressed


class FeaturePyramid(nn.Module):
    """One level of `channels` per stage, finest first."""

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
    """A map of the head as rows in the order of the level's anchors: [B, anchors, numbers]."""
    return maps.permute(0, 2, 3, 1).reshape(len(maps), -1, numbers)


class BoxHead(nn.Module):
    """Two fully connected layers, then the predictors of classes (0 is background) and of each one's box."""

    def __init__(self, pooled: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(pooled, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.classes = nn.Linear(hidden, num_classes + 1)
        self.deltas = nn.Linear(hidden, 4 * (num_classes + 1))
        for layer, std in ((self.classes, 0.01), (self.deltas, 0.001)):  # Girshick 2015, 3.1
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)

    def forward(self, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Scores before softmax [N, classes + 1] and deltas [N, 4 · (classes + 1)]."""
        seen = F.relu(self.second(F.relu(self.first(pooled.flatten(1)))))
        return self.classes(seen), self.deltas(seen)


class RegionCount(nn.Module):
    """Two int64 sums, which are neither cast with the model nor averaged over workers."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64), persistent=False)

    def add(self, images: int, regions: int) -> None:
        """Counts one batch without synchronising with the device."""
        self.seen[0].add_(images)
        self.seen[1].add_(regions)

    def take(self) -> tuple[int, int]:
        """Images and regions since the last call."""
        images, regions = self.seen.tolist()
        self.seen.zero_()
        return images, regions
