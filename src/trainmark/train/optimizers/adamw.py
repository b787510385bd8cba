"""Adam with decoupled weight decay."""

from collections.abc import Iterable

import torch
from torch import nn

from trainmark.spec.config import TrainConfig
from trainmark.train.optimizers.adam import build_adam


def build(parameters: Iterable[nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return build_adam(torch.optim.AdamW, parameters, settings)
