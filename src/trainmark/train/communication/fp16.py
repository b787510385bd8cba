"""fp16 on the wire: half of the bytes."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.wire import Cast


def build(settings: TrainConfig) -> Cast:
    """Half precision: two bytes per value, 11 bits of significand, values up to 65504."""
    return Cast(torch.float16, tolerance=2**-11)
