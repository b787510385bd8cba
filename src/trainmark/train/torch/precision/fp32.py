"""fp32: single precision throughout; what the other precisions are compared with."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.precision.tf32 import allow_tf32
from trainmark.train.torch.protocols import Arithmetic

# The reference itself; but GPUs may add up in another order the next time.
LOSS_TOLERANCE = 1e-5
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Single precision throughout; tf32 is off."""
    allow_tf32(convolutions=False, matrices=False)
    return Arithmetic(note="fp32; tf32 off" if device.type == "cuda" else "fp32")
