"""Adam."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015); weight decay is an L2 penalty."""
    known = list(parameters)
    return torch.optim.Adam(
        known,
        lr=settings.learning_rate,
        betas=(settings.momentum, settings.beta2),
        eps=1e-8 if settings.epsilon is None else settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
        capturable=any(each.is_cuda for each in known),
    )
