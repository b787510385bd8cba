"""Anchors: the boxes that a region proposal network starts from, three shapes around each cell of each level."""

from collections.abc import Sequence

import torch
from torch import Tensor

RATIOS = (0.5, 1.0, 2.0)  # height : width, at equal area


def anchors_of_level(height: int, width: int, stride: int, side: float, device: torch.device) -> Tensor:
    """Anchors of side² pixels around the centres of height × width cells; row by row, the ratios innermost."""
    ratios = torch.tensor(RATIOS, device=device)
    sizes = torch.stack([side * ratios.sqrt(), side / ratios.sqrt()], dim=-1)
    y = (torch.arange(height, device=device) + 0.5) * stride
    x = (torch.arange(width, device=device) + 0.5) * stride
    centres = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).view(height, width, 1, 2)
    return torch.cat([centres - sizes / 2, centres + sizes / 2], dim=-1).view(-1, 4)


def anchors_of_levels(
    shapes: Sequence[tuple[int, int]], strides: Sequence[int], scale: float, device: torch.device
) -> list[Tensor]:
    """The anchors of each level of a pyramid, `scale` strides large."""
    return [
        anchors_of_level(height, width, stride, scale * stride, device)
        for (height, width), stride in zip(shapes, strides, strict=True)
    ]
