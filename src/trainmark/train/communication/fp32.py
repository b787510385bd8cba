"""fp32 on the wire: gradients travel as they are."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.wire import Cast


def build(settings: TrainConfig) -> Cast:
    """Single precision: four bytes per value, lossless."""
    return Cast(torch.float32, tolerance=2**-24)
