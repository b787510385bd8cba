"""Which level of a pyramid a region is read from: large regions from coarse features."""

from torch import Tensor

from trainmark.workloads.detection.boxes import area

# Lin et al. 2017, eq. 1: 224 pixels is the least side read at stride 16, where their anchors are 8 strides large:
# 224 = 1.75 × 8 × 16. So the levels of regions follow those of the anchors, whatever their scale.
LEAST_SIDE_IN_ANCHORS = 1.75


def levels_of(boxes: Tensor, finest_stride: int, anchor_scale: float, num_levels: int) -> Tensor:
    """The level of each box, 0 the finest; each next one for boxes of twice the side."""
    least_side = LEAST_SIDE_IN_ANCHORS * anchor_scale * finest_stride
    doublings = (area(boxes).sqrt() / least_side).log2().floor()
    return doublings.clamp(0, num_levels - 1).long()
