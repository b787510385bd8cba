"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig
from trainmark.train.optimizers.layers import is_sharded


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum, plain or Nesterov's."""
    known = list(parameters)
    # torch has no fused form for shards, and on CPUs its fused form leaves 16-bit weights as they are (pytorch#191763).
    can_fuse = not is_sharded(known) and all(each.is_cuda or torch.finfo(each.dtype).bits > 16 for each in known)
    fused = settings.fused_optimizer and can_fuse
    optimizer = torch.optim.SGD(
        known,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
        fused=fused,
        foreach=not fused,
    )
    if settings.momentum > 0:
        # torch would leave momentum uninitialised where a gradient scaler skips the first step.
        for parameter in known:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
