"""Communicator: what a communication mode does for one worker of a member."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn


class Communicator(Protocol):
    """Joins what the copies of a model learn."""

    def share(self, model: nn.Module) -> nn.Module:
        """The model to call in the forward pass; its backward joins gradients, if this mode joins gradients."""
        ...

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """The weights take one step; `step` is this worker's own update by `optimizer`."""
        ...

    def settle(self) -> None:
        """All workers hold the same weights: called before evaluations and checkpoints, by all of them."""
        ...

    def facts(self) -> dict[str, Any]:
        """What was measured since the last call; `waited_s` (time that communication kept this worker waiting).

        A mode that sends past the process group's sockets says so: `sent_bytes` None and a `sent_reason`.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of this worker: error feedback and the like; tensors and plain values."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        ...
