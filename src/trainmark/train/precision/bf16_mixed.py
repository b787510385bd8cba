"""bf16-mixed: products in bf16, everything delicate in fp32, weights in fp32."""

from functools import partial

import torch

from trainmark.machine.instructions import has_fast
from trainmark.spec.config import TrainConfig
from trainmark.train.arithmetic import Arithmetic
from trainmark.train.precision.tf32 import allow_tf32

# bf16 rounds by up to 2^-9 = 2.0e-3, in every layer. Seen on the tiny workload: 2.8e-3 (16 steps of four epochs).
LOSS_TOLERANCE = 0.01
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in bf16 by autocast, the rest and the weights in fp32."""
    allow_tf32(convolutions=False, matrices=False)
    note = "bf16 autocast, fp32 weights"
    if device.type == "cpu" and not has_fast("bf16"):
        note += "; this CPU has no bf16 instructions: emulated in software"
    return Arithmetic(note=note, forward=partial(torch.autocast, device.type, dtype=torch.bfloat16))
