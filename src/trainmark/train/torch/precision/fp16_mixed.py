"""fp16-mixed: products in fp16, everything delicate in fp32, weights in fp32, the loss scaled."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.precision.autocast import build_autocast
from trainmark.train.torch.protocols import Arithmetic

# fp16 rounds by up to 2^-11 = 4.9e-4, in every layer. Seen on the tiny workload: 1.3e-4 (16 steps of four epochs).
LOSS_TOLERANCE = 0.001
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in fp16 by autocast, the rest and the weights in fp32; the loss is scaled."""
    return build_autocast(device, "fp16", torch.float16, torch.amp.GradScaler(device.type))
