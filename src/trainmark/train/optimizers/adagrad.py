"""AdaGrad."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig
from trainmark.train.optimizers.layers import is_sharded


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """AdaGrad (Duchi et al. 2011): the rate of each weight falls with its past gradients."""
    known = list(parameters)
    # torch 2.11 refuses its fused form on CUDA, and has none for shards.
    fused = settings.fused_optimizer and not is_sharded(known) and all(each.is_cpu for each in known)
    return torch.optim.Adagrad(
        known,
        lr=settings.learning_rate,
        eps=1e-10 if settings.epsilon is None else settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=fused,
        foreach=not fused,
    )
