"""tf32: fp32 tensors whose products a GPU rounds to 10 bits of mantissa first."""

import torch

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.protocols import Arithmetic

# tf32 rounds operands by up to 2^-11 = 4.9e-4, as fp16 does, whose losses differed by 1.3e-4 at most (fp16.py).
LOSS_TOLERANCE = 0.001
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """fp32 tensors, products rounded to tf32 (10 bits of mantissa); needs a GPU."""
    assert device.type == "cuda", "the plan has checked it"
    allow_tf32(convolutions=True, matrices=True)
    return Arithmetic(note="fp32 tensors, tf32 convolutions and matrix products")


def allow_tf32(*, convolutions: bool, matrices: bool) -> None:
    """From here on, fp32 products on GPUs may be tf32 or not: torch's switches hold for the whole process."""
    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cuda.matmul.allow_tf32 = matrices
