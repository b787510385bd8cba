"""Faster R-CNN (Ren et al. 2015) on a feature pyramid (Lin et al. 2017), trained from scratch."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.train.torch.detection import backbone
from trainmark.train.torch.detection.boxes import Targets, anchors_of_levels, read_targets
from trainmark.train.torch.detection.heads import (
    BoxHead,
    DetectorSettings,
    FeaturePyramid,
    RegionCount,
    RegionHead,
    in_order_of_anchors,
)
from trainmark.train.torch.detection.losses import DrawnRegions, anchor_losses
from trainmark.train.torch.detection.proposals import Regions, detect, propose
from trainmark.train.torch.detection.roi_align import Placed, levels_of, pool

STRIDES = (*backbone.STRIDES, 64)  # of the levels that regions are proposed from; the last is used only for proposals
POOLED_SIDE = 7


def faster_rcnn(
    num_classes: int = 4,
    channels: int = 16,
    depth: int = 50,
    width: int = 64,
    pyramid_channels: int = 256,
    hidden: int = 1024,
    anchor_scale: float = 8.0,
    proposals_before_nms: int = 2000,
    proposals_after_nms: int = 2000,
    eval_proposals_before_nms: int = 1000,
    eval_proposals_after_nms: int = 1000,
    proposal_overlap: float = 0.7,
    sampled_anchors: int = 256,
    sampled_regions: int = 512,
    detections: int = 100,
    score_threshold: float = 0.05,
    detection_overlap: float = 0.5,
) -> nn.Module:
    """Faster R-CNN: boxes with a class, by a ResNet (v1.5), a feature pyramid and two stages of detection."""
    settings = DetectorSettings(
        anchor_scale=anchor_scale,
        proposals_before_nms=proposals_before_nms,
        proposals_after_nms=proposals_after_nms,
        eval_proposals_before_nms=eval_proposals_before_nms,
        eval_proposals_after_nms=eval_proposals_after_nms,
        proposal_overlap=proposal_overlap,
        sampled_anchors=sampled_anchors,
        sampled_regions=sampled_regions,
        detections=detections,
        score_threshold=score_threshold,
        detection_overlap=detection_overlap,
    )
    return FasterRcnn(
        backbone.stem(channels, width),
        backbone.stages(depth, width),
        FeaturePyramid(backbone.stage_channels(depth, width), pyramid_channels),
        RegionHead(pyramid_channels),
        BoxHead(pyramid_channels * POOLED_SIDE**2, hidden, num_classes),
        settings,
    )


class FasterRcnn(nn.Module):
    """A loss from images and their boxes, or detections from images alone."""

    def __init__(
        self,
        stem: nn.Module,
        stages: list[nn.Sequential],
        pyramid: FeaturePyramid,
        region_head: RegionHead,
        box_head: BoxHead,
        settings: DetectorSettings,
    ) -> None:
        super().__init__()
        # Separate children, since sharding and recomputation work on a model's children.
        self.stem = stem
        self.stage1, self.stage2, self.stage3, self.stage4 = stages
        self.pyramid = pyramid
        self.region_head = region_head
        self.box_head = box_head
        self.count = RegionCount()
        self.settings = settings
        self.pooled_shape = (box_head.first.in_features // POOLED_SIDE**2, POOLED_SIDE, POOLED_SIDE)

    @property
    def seen(self) -> Tensor:
        """Numbers of images, and of regions in the box head, in training passes since `take_seen`."""
        return self.count.seen

    def take_seen(self) -> tuple[int, int]:
        """Images and regions since the last call."""
        return self.count.take()

    def dense(self, images: Tensor) -> tuple[Tensor, ...]:
        """The part with static shapes: five levels, then the objectness and the deltas of each."""
        features = [self.stage1(self.stem(images))]
        for stage in (self.stage2, self.stage3, self.stage4):
            features.append(stage(features[-1]))
        levels = self.pyramid(tuple(features))
        levels = (*levels, F.max_pool2d(levels[-1], 1, stride=2))
        maps = self.region_head(levels)
        objectness = [in_order_of_anchors(each, 1).squeeze(2) for each in maps[: len(STRIDES)]]
        deltas = [in_order_of_anchors(each, 4) for each in maps[len(STRIDES) :]]
        return (*levels, *objectness, *deltas)

    def per_proposal(self, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Class scores [N, classes + 1], 0 is background, and deltas per class [N, classes + 1, 4]."""
        classes, deltas = self.box_head(pooled)
        return classes, deltas.view(*classes.shape, 4)

    def forward(self, images: Tensor, targets: Tensor | None = None) -> Tensor:
        """The loss, given rows of ymin, xmin, ymax, xmax, class [B, G, 5]; else detections [B, detections, 6].

        Detections are ymin, xmin, ymax, xmax, score, class, best first, then rows of −1; targets of a class below 0 are
        padding too.
        """
        outputs = DenseOutputs.of(images, self.dense(images), self.settings.anchor_scale)
        if targets is not None:
            return self._loss(outputs, read_targets(targets))
        if images.is_meta:  # regions depend on values, the shape of the outputs does not
            return images.new_empty(len(images), self.settings.detections, 6, dtype=torch.float32)
        return self._detections(outputs)

    def _loss(self, outputs: "DenseOutputs", targets: Targets) -> Tensor:
        chosen = self.settings
        proposals = self._propose(outputs, chosen.proposals_before_nms, chosen.proposals_after_nms)
        regions = DrawnRegions(proposals, targets, chosen.sampled_regions)
        if self.training:
            self.count.add(len(outputs.levels[0]), len(regions.boxes))
        region_losses = regions.losses(*self._classify(outputs, regions.boxes, regions.images))
        return region_losses + anchor_losses(
            torch.cat(outputs.anchors),
            torch.cat(outputs.objectness, dim=1),
            torch.cat(outputs.deltas, dim=1),
            targets,
            chosen.sampled_anchors,
        )

    def _detections(self, outputs: "DenseOutputs") -> Tensor:
        chosen = self.settings
        proposals = self._propose(outputs, chosen.eval_proposals_before_nms, chosen.eval_proposals_after_nms)
        images, places = proposals.is_valid.nonzero(as_tuple=True)
        classes, deltas = self._classify(outputs, proposals.boxes[images, places], images)
        return detect(proposals, classes, deltas, outputs.image_size, chosen)

    def _propose(self, outputs: "DenseOutputs", before_nms: int, after_nms: int) -> Regions:
        return propose(
            outputs.anchors,
            outputs.objectness,
            outputs.deltas,
            outputs.image_size,
            before_nms=before_nms,
            after_nms=after_nms,
            max_overlap=self.settings.proposal_overlap,
        )

    def _classify(self, outputs: "DenseOutputs", boxes: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """The box head's outputs for boxes, each in its image."""
        strides = backbone.STRIDES
        levels = levels_of(boxes, strides[0], self.settings.anchor_scale, len(strides))
        pooled = pool(outputs.levels[: len(strides)], strides, Placed(boxes, images, levels), POOLED_SIDE)
        return self.per_proposal(pooled)


class DenseOutputs(NamedTuple):
    """Outputs of the dense part for a batch, per level, with their anchors."""

    image_size: tuple[int, int]
    levels: tuple[Tensor, ...]
    objectness: tuple[Tensor, ...]
    deltas: tuple[Tensor, ...]
    anchors: list[Tensor]

    @classmethod
    def of(cls, images: Tensor, outputs: tuple[Tensor, ...], anchor_scale: float) -> "DenseOutputs":
        """Groups the dense part's outputs by kind."""
        count = len(STRIDES)
        levels = outputs[:count]
        shapes = [(level.shape[2], level.shape[3]) for level in levels]
        anchors = anchors_of_levels(shapes, STRIDES, anchor_scale, images.device)
        size = (images.shape[2], images.shape[3])
        return cls(size, levels, outputs[count : 2 * count], outputs[2 * count :], anchors)
