"""Real numbers as int8 times a scale, rounded to nearest or at random."""

from typing import NamedTuple

import torch
from torch import Tensor

# Symmetric: −128 is not used, so that a number and its negative are equally well kept.
LARGEST = 127
# A part in 2^17 wider than the largest value needs, so that its rounding errors and noise below ½ never reach 127.5.
SLACK = 1 + 2.0**-17
SMALLEST_SCALE = 1e-30  # of tensors of zeros: their quotients stay finite


class Quantised(NamedTuple):
    """`values` × `scale` is the tensor, to within half a scale (a whole one, rounded at random)."""

    values: Tensor
    scale: Tensor


def quantise(tensor: Tensor, kept: tuple[int, ...], *, at_random: bool = False) -> Quantised:
    """A contiguous fp32 tensor as int8, with a scale for each index of the `kept` dimensions (none: one scale)."""
    summed = [dimension for dimension in range(tensor.ndim) if dimension not in kept]
    # NaN and infinity go into the scale, and so into every product: divergence stays visible.
    largest = torch.maximum(tensor.amax(summed, keepdim=True), -tensor.amin(summed, keepdim=True))
    scale = (largest * (SLACK / LARGEST)).clamp_min(SMALLEST_SCALE)
    steps = tensor * scale.reciprocal()
    if at_random:
        steps.add_(_noise(tensor), alpha=2.0**-16)
    return Quantised(steps.round_().to(torch.int8), scale)


def _noise(tensor: Tensor) -> Tensor:
    """Uniform 16-bit integers in the tensor's shape, from torch's own generator: a quarter of the draws of floats.

    Added in units of 2^-16 before rounding to nearest, they make the expected value the value itself, to 2^-17.
    """
    draws = torch.empty(-(-tensor.numel() // 4), dtype=torch.int64, device=tensor.device)
    draws.random_(torch.iinfo(torch.int64).min, None)
    return draws.view(torch.int16)[: tensor.numel()].view(tensor.shape)
