"""fp16-mixed: products in fp16, everything delicate in fp32, weights in fp32, the loss scaled."""

from functools import partial

import torch

from trainmark.machine.instructions import has_fast
from trainmark.spec.config import TrainConfig
from trainmark.train.arithmetic import Arithmetic
from trainmark.train.precision.tf32 import allow_tf32

# fp16 rounds by up to 2^-11 = 4.9e-4, in every layer. Seen on the tiny workload: 1.3e-4 (16 steps of four epochs).
LOSS_TOLERANCE = 0.001
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in fp16 by autocast, the rest and the weights in fp32; the loss is scaled."""
    allow_tf32(convolutions=False, matrices=False)
    note = "fp16 autocast, fp32 weights, dynamic loss scale"
    if device.type == "cpu" and not has_fast("fp16"):
        note += "; this CPU has no fp16 instructions: emulated in software"
    return Arithmetic(
        note=note,
        forward=partial(torch.autocast, device.type, dtype=torch.float16),
        scaler=torch.amp.GradScaler(device.type),
    )
