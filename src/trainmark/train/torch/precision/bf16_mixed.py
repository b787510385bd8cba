"""bf16-mixed: products in bf16, everything delicate in fp32, weights in fp32."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.precision.autocast import build_autocast
from trainmark.train.torch.protocols import Arithmetic

# bf16 rounds by up to 2^-9 = 2.0e-3, in every layer. Seen on the tiny workload: 2.8e-3 (16 steps of four epochs).
LOSS_TOLERANCE = 0.01
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in bf16 by autocast, the rest and the weights in fp32."""
    return build_autocast(device, "bf16", torch.bfloat16, None)
