"""bf16 on the wire: half of the bytes, with the range of fp32."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.wire import Cast


def build(settings: TrainConfig) -> Cast:
    """Brain floating point: two bytes per value, 8 bits of significand, the range of fp32."""
    return Cast(torch.bfloat16, tolerance=2**-8)
