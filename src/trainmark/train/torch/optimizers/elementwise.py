"""The element-wise optimizers: SGD, Adam, AdamW and AdaGrad."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.optimizers.layerwise import is_sharded


def sgd(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum, plain or Nesterov's."""
    known = list(parameters)
    # No fused form for shards; on CPUs the fused form does not update 16-bit weights (pytorch#191763).
    can_fuse = not is_sharded(known) and all(each.is_cuda or torch.finfo(each.dtype).bits > 16 for each in known)
    fused = settings.torch.fused_optimizer and can_fuse
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
        # torch leaves momentum uninitialised if a gradient scaler skips the first step.
        for parameter in known:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def adam(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015); weight decay is an L2 penalty."""
    return build_adam(torch.optim.Adam, parameters, settings)


def build_adam(
    kind: type[torch.optim.Adam], parameters: Iterable[nn.Parameter], settings: TrainConfig
) -> torch.optim.Optimizer:
    """Adam or AdamW, fused, and on a GPU capturable in a CUDA graph."""
    known = list(parameters)
    return kind(
        known,
        lr=settings.learning_rate,
        betas=(settings.momentum, settings.beta2),
        eps=1e-8 if settings.epsilon is None else settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=settings.torch.fused_optimizer,
        foreach=not settings.torch.fused_optimizer,
        capturable=any(each.is_cuda for each in known),
    )


def adamw(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return build_adam(torch.optim.AdamW, parameters, settings)


def adagrad(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """AdaGrad (Duchi et al. 2011): the rate of each weight falls with its past gradients."""
    known = list(parameters)
    # torch 2.11 has no fused form on CUDA or for shards.
    fused = settings.torch.fused_optimizer and not is_sharded(known) and all(each.is_cpu for each in known)
    return torch.optim.Adagrad(
        known,
        lr=settings.learning_rate,
        eps=1e-10 if settings.epsilon is None else settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=fused,
        foreach=not fused,
    )
