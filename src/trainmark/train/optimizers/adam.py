"""Adam."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015); weight decay is an L2 penalty."""
    return build_adam(torch.optim.Adam, parameters, settings)


def build_adam(
    kind: type[torch.optim.Adam], parameters: Iterable[nn.Parameter], settings: TrainConfig
) -> torch.optim.Optimizer:
    """Adam or one of its kin, fused, and on a GPU fit to be captured in a graph."""
    known = list(parameters)
    return kind(
        known,
        lr=settings.learning_rate,
        betas=(settings.momentum, settings.beta2),
        eps=1e-8 if settings.epsilon is None else settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=settings.fused_optimizer,
        foreach=not settings.fused_optimizer,
        capturable=any(each.is_cuda for each in known),
    )
