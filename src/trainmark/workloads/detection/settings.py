"""DetectorSettings: how many boxes go from one part of a detector to the next, and which overlap is too much."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DetectorSettings:
    """The numbers of a two-stage detector, apart from the sizes of its layers."""

    anchor_scale: float  # side of an anchor, in strides of its level
    proposals_before_nms: int  # of each level; training
    proposals_after_nms: int  # of each image; training
    eval_proposals_before_nms: int
    eval_proposals_after_nms: int
    proposal_overlap: float  # more than this is suppressed
    sampled_anchors: int  # of each image; training
    sampled_regions: int  # of each image; training
    detections: int  # of each image; evaluation
    score_threshold: float
    detection_overlap: float  # more than this, within a class, is suppressed
