"""Arithmetic: the number format of training, as what it does to a model, a forward pass and a step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Scaler(Protocol):
    """Keeps small gradients representable: torch.amp.GradScaler, or anything that acts like it."""

    def scale(self, outputs: Tensor) -> Tensor:
        """The loss, made larger."""
        ...

    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        """Makes the gradients small again and steps, unless they overflowed."""
        ...

    def update(self) -> None:
        """Chooses the next scale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        ...


def _unchanged(model: nn.Module) -> nn.Module:
    return model


@dataclass(frozen=True)
class Arithmetic:
    """`note` says what runs on this device; it stands in the Result."""

    note: str
    convert: Callable[[nn.Module], nn.Module] = _unchanged
    forward: Callable[[], AbstractContextManager[Any]] = nullcontext
    scaler: Scaler | None = None
