"""local-sgd: workers make local steps and average their weights periodically."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import broadcast_from_rank_0, flatten, unflatten
from trainmark.train.torch.communication.team import all_reduce, form_team
from trainmark.train.torch.communication.wire import Encoders, message_wire_of
from trainmark.train.torch.protocols import WorkerGroup
from trainmark.train.torch.stopwatch import Stopwatch


def build(workers: WorkerGroup, settings: TrainConfig) -> "LocalSgd":
    """Local SGD: workers make local steps and average their weights every train.averaging_steps steps."""
    return LocalSgd(workers, settings)


class LocalSgd:
    """Averages weights; the optimizer state (momentum) stays local.

    Workers send the change of their weights since the last average: small numbers, for which a wire precision
    suffices that would be too coarse for weights.
    """

    def __init__(self, workers: WorkerGroup, settings: TrainConfig) -> None:
        self._workers = workers
        self._encoders = Encoders(message_wire_of(settings))
        self._team = form_team(workers) if workers.size > 1 else None
        self._averaging_steps = settings.averaging_steps
        self._steps = 0
        self._weights: list[nn.Parameter] = []
        self._average: Tensor | None = None
        self._watch = Stopwatch(workers.device)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model itself, with the weights of worker 0."""
        self._weights = list(model.parameters())
        broadcast_from_rank_0((*model.parameters(), *model.buffers()), self._workers)
        return model

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """Makes a local step; every averaging_steps steps, averages weights."""
        if self._average is None:  # not in `wrap`: a checkpoint may be loaded in between
            self._average = flatten(self._weights)
        step()
        self._steps += 1
        if self._steps == self._averaging_steps:
            self.sync_weights()

    def sync_weights(self) -> None:
        """Averages the weights of all workers, and restarts the count of local steps."""
        self._steps = 0
        if self._team is None or self._average is None:
            return
        with self._watch.section("averaging"):
            moved = flatten(self._weights).sub_(self._average).div_(self._workers.size)
            all_reduce(self._team, moved, self._encoders.encoder(0))
            self._average += moved
            unflatten(self._average, self._weights)

    def facts(self) -> EpochFacts:
        """Time of averaging, including waiting for slower workers."""
        return {"waited_s": self._watch.read()["averaging"]}

    def state(self) -> dict[str, Any]:
        """Steps since the last average, and the error feedback."""
        return {"steps": self._steps, **self._encoders.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned, relative to the weights at the next step."""
        self._steps = state["steps"]
        self._average = None
        self._encoders.load(state)
