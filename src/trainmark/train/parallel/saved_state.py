"""What a checkpoint keeps of a worker: its weights and statistics, its optimizer and its loss scale."""

from typing import Any

import torch
from torch import nn

from trainmark.train.arithmetic import Scaler


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Scaler | None) -> dict[str, Any]:
    """Tensors and plain values, enough to go on from."""
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict() if scaler else {},
    }


def load_state(
    state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Scaler | None
) -> None:
    """Model, optimizer and loss scale are as `state_of` found them."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if scaler:
        scaler.load_state_dict(state["scaler"])
