"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum, in torch's fused form."""
    return torch.optim.SGD(
        parameters,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=True,
    )
