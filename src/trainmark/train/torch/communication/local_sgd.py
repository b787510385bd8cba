"""local-sgd: every worker steps alone, and from time to time weights are averaged."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import broadcast_from_first, flatten, unflatten
from trainmark.train.torch.communication.team import all_reduce, assemble
from trainmark.train.torch.communication.wire import Writers, message_wire_of
from trainmark.train.torch.protocols import Peers
from trainmark.train.torch.stopwatch import Stopwatch


def build(peers: Peers, settings: TrainConfig) -> "LocalSgd":
    """Local SGD: workers step alone and average their weights every train.averaging_steps steps."""
    return LocalSgd(peers, settings)


class LocalSgd:
    """Weights are averaged; the optimizer's state (momentum) stays each worker's own.

    What is sent is how far a worker has moved since the last average: small numbers, which keep their meaning in a
    wire precision that is too coarse for weights.
    """

    def __init__(self, peers: Peers, settings: TrainConfig) -> None:
        self._peers = peers
        self._writers = Writers(message_wire_of(settings))
        self._team = assemble(peers) if peers.size > 1 else None
        self._averaging_steps = settings.averaging_steps
        self._steps = 0
        self._weights: list[nn.Parameter] = []
        self._average: Tensor | None = None
        self._watch = Stopwatch(peers.device)

    def share(self, model: nn.Module) -> nn.Module:
        """The model itself, with the weights of the first worker."""
        self._weights = list(model.parameters())
        broadcast_from_first((*model.parameters(), *model.buffers()), self._peers)
        return model

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """A step of this worker alone; when it is time, the average of all."""
        if self._average is None:  # not in `share`: a checkpoint may have been loaded since
            self._average = flatten(self._weights)
        step()
        self._steps += 1
        if self._steps == self._averaging_steps:
            self.settle()

    def settle(self) -> None:
        """All workers hold the mean of their weights; the steps until the next average are counted from here."""
        self._steps = 0
        if self._team is None or self._average is None:
            return
        with self._watch.section("averaging"):
            moved = flatten(self._weights).sub_(self._average).div_(self._peers.size)
            all_reduce(self._team, moved, self._writers.writer(0))
            self._average += moved
            unflatten(self._average, self._weights)

    def facts(self) -> EpochFacts:
        """Time that averaging took, waiting for slower workers included."""
        return {"waited_s": self._watch.read()["averaging"]}

    def state(self) -> dict[str, Any]:
        """Steps since the last average, and errors of compression that are still to be made good."""
        return {"steps": self._steps, **self._writers.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`, with the weights as they are at the next step."""
        self._steps = state["steps"]
        self._average = None
        self._writers.load(state)
