"""Quantisation to int8 times a scale, rounded to nearest or stochastically."""

from typing import NamedTuple

import torch
from torch import Tensor

# Symmetric: −128 is not used, so that the rounding of x and −x is the same.
LARGEST = 127
# 2^-17 wider than the largest value needs, so that rounding errors and noise below ½ never reach 127.5.
SLACK = 1 + 2.0**-17
SMALLEST_SCALE = 1e-30  # for all-zero tensors: quotients stay finite


class Quantised(NamedTuple):
    """`values` × `scale` is the tensor to within scale / 2 (scale, with stochastic rounding)."""

    values: Tensor
    scale: Tensor


def quantise(tensor: Tensor, kept: tuple[int, ...], *, stochastic: bool = False) -> Quantised:
    """Quantises a contiguous fp32 tensor, with one scale per index of the `kept` dimensions (none: one scale)."""
    summed = [dimension for dimension in range(tensor.ndim) if dimension not in kept]
    # NaN and infinity enter the scale, and so every product: divergence stays visible.
    largest = torch.maximum(tensor.amax(summed, keepdim=True), -tensor.amin(summed, keepdim=True))
    scale = (largest * (SLACK / LARGEST)).clamp_min(SMALLEST_SCALE)
    steps = tensor * scale.reciprocal()
    if stochastic:
        steps.add_(_noise(tensor), alpha=2.0**-16)
    return Quantised(steps.round_().to(torch.int8), scale)


def _noise(tensor: Tensor) -> Tensor:
    """Uniform 16-bit integers in the tensor's shape, from torch's generator: a quarter of the draws that floats need.

    Added in units of 2^-16 before rounding to nearest, they make rounding unbiased to within 2^-17.
    """
    draws = torch.empty(-(-tensor.numel() // 4), dtype=torch.int64, device=tensor.device)
    draws.random_(torch.iinfo(torch.int64).min, None)
    return draws.view(torch.int16)[: tensor.numel()].view(tensor.shape)
