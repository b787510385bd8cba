"""parameter-server: asynchronous SGD; workers push gradients to worker 0 and pull the newest weights."""

import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig
from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import broadcast_from_rank_0, flatten, unflatten
from trainmark.train.torch.communication.team import Team, form_team
from trainmark.train.torch.communication.wire import Encoder, Encoders, message_wire_of
from trainmark.train.torch.protocols import WorkerGroup

GRADIENTS, WEIGHTS = 1, 2  # message tags; versions use the default tag, 0
DONE = -1  # in place of a version: no more pushes until the next synchronisation


def build(workers: WorkerGroup, settings: TrainConfig) -> "ParameterServer":
    """Asynchronous SGD: gradients are applied one by one, as they arrive at a server in worker 0."""
    return ParameterServer(workers, settings)


class ParameterServer:
    """A worker of asynchronous SGD; worker 0 also runs the server, in a thread.

    A gradient is applied at the current learning rate of worker 0: all workers follow one schedule. Local updates are
    not made, so the loss must not be scaled. Weights are pulled in fp32; gradients are pushed in the wire precision.
    The server runs from the first update after a synchronisation to the next one.
    """

    def __init__(self, workers: WorkerGroup, settings: TrainConfig) -> None:
        self._workers = workers
        self._encoders = Encoders(message_wire_of(settings))
        # gloo even on accelerators: the server receives from any source, in order of arrival.
        self._team = form_team(workers, "gloo") if workers.size > 1 else None
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._server: Server | None = None
        self._version = 0
        self._waited_s = 0.0
        self._staleness: list[int] = []

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model itself, with the weights of worker 0."""
        self._model = model
        broadcast_from_rank_0((*model.parameters(), *model.buffers()), self._workers)
        return model

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """Pushes this worker's gradients to the server and pulls the newest weights."""
        self._optimizer = optimizer
        weights = _weights_of(optimizer)
        gradients = flatten(torch.zeros_like(p) if p.grad is None else p.grad for p in weights).cpu()
        started_s = time.perf_counter()
        if self._workers.rank == 0:
            server = self._running_server(optimizer)
            server.check()
            with server.lock:
                self._waited_s += time.perf_counter() - started_s
                newest, self._version = server.apply(gradients, self._version)
        else:
            newest, self._version = self._push_and_pull(gradients)
            self._waited_s += time.perf_counter() - started_s
        unflatten(newest, weights)

    def sync_weights(self) -> None:
        """Waits until all gradients are applied, then copies weights to all workers and optimizer state to worker 0."""
        started_s = time.perf_counter()
        if self._optimizer is not None:
            if self._workers.rank == 0:
                server = self._running_server(self._optimizer)
                self._staleness += server.stop()
                server.copy_to_owner()
                self._server = None
            elif self._team is not None:
                dist.send(torch.tensor([DONE]), group=self._team.group, group_dst=0)
            self._version = 0
        if self._model is not None:
            # Also a barrier: worker 0 broadcasts once all others are done.
            broadcast_from_rank_0(self._model.parameters(), self._workers)
        self._waited_s += time.perf_counter() - started_s

    def facts(self) -> EpochFacts:
        """Time that updates kept this worker waiting; on worker 0 also the staleness of each applied gradient."""
        waited_s, self._waited_s = self._waited_s, 0.0
        facts: EpochFacts = {"waited_s": waited_s}
        if self._workers.rank == 0:
            facts["staleness"], self._staleness = self._staleness, []
            if self._server is not None:
                facts["staleness"] += self._server.take_staleness()
        return facts

    def state(self) -> dict[str, Any]:
        """The error feedback; the rest is in weights and optimizer, once synchronised."""
        return self._encoders.state()

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._encoders.load(state)

    def _running_server(self, optimizer: torch.optim.Optimizer) -> "Server":
        if self._server is None:
            self._server = Server(optimizer, self._team, Encoder(self._encoders.wire))
        return self._server

    def _push_and_pull(self, gradients: Tensor) -> tuple[Tensor, int]:
        """Sends gradients; returns the newest weights and their version."""
        assert self._team is not None
        group = self._team.group
        dist.send(torch.tensor([self._version]), group=group, group_dst=0)
        dist.send(self._encoders.encoder(0).encode(gradients), group=group, group_dst=0, tag=GRADIENTS)
        version, weights = torch.empty(1, dtype=torch.int64), torch.empty_like(gradients)
        dist.recv(version, group=group, group_src=0)
        dist.recv(weights, group=group, group_src=0, tag=WEIGHTS)
        return weights, int(version.item())


class Server:
    """Weights and optimizer state, updated by one gradient at a time."""

    def __init__(self, optimizer: torch.optim.Optimizer, team: Team | None, decoder: Encoder) -> None:
        self.lock = threading.Lock()
        self._owner = optimizer
        self._optimizer = _copy_of(optimizer)
        self._weights = _weights_of(self._optimizer)
        self._team = team
        self._decoder = decoder
        self._version = 0
        self._staleness: list[int] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parameter-server")
        self._serving: Future[None] = self._thread.submit(self._serve)

    def apply(self, gradients: Tensor, version: int) -> tuple[Tensor, int]:
        """Makes a step with gradients of weights of that version; returns the new weights and version."""
        for group, owners in zip(self._optimizer.param_groups, self._owner.param_groups, strict=True):
            group.update({name: value for name, value in owners.items() if name != "params"})
        for weight in self._weights:
            weight.grad = torch.empty_like(weight)
        unflatten(gradients, [weight.grad for weight in self._weights if weight.grad is not None])
        self._optimizer.step()
        self._staleness.append(self._version - version)
        self._version += 1
        return flatten(self._weights).cpu(), self._version

    def check(self) -> None:
        """Raises the error of the server thread, if it failed."""
        if self._serving.done():
            self._serving.result()

    def take_staleness(self) -> list[int]:
        """Returns the staleness, in versions, of each gradient applied since the last call."""
        with self.lock:
            taken, self._staleness = self._staleness, []
        return taken

    def stop(self) -> list[int]:
        """Waits until all workers are done; returns the remaining staleness."""
        self._serving.result()
        self._thread.shutdown()
        return self.take_staleness()

    def copy_to_owner(self) -> None:
        """Copies weights and optimizer state to those of worker 0."""
        unflatten(flatten(self._weights), _weights_of(self._owner))
        self._owner.load_state_dict(self._optimizer.state_dict())

    def _serve(self) -> None:
        """Serves pushes, in order of arrival, until all workers are done."""
        if self._team is None:
            return
        group, active = self._team.group, self._team.size - 1
        payload = self._decoder.empty_message(flatten(self._weights).cpu())
        version = torch.empty(1, dtype=torch.int64)
        while active:
            worker = dist.recv(version, group=group)
            if version.item() == DONE:
                active -= 1
                continue
            dist.recv(payload, worker, group=group, tag=GRADIENTS)
            with self.lock:
                newest, newest_version = self.apply(self._decoder.decode(payload), int(version.item()))
            dist.send(torch.tensor([newest_version]), worker, group=group)
            dist.send(newest, worker, group=group, tag=WEIGHTS)


def _weights_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _copy_of(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """A deep copy of the optimizer and its weights."""
    # Not copy.deepcopy(optimizer), which keeps only the attributes of torch's own optimizers.
    copied = object.__new__(type(optimizer))
    copied.__dict__.update(copy.deepcopy(vars(optimizer)))
    return copied
