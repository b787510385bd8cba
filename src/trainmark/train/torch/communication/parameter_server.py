"""parameter-server: asynchronous SGD; workers push gradients to the first one and pull the newest weights."""

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
from trainmark.train.torch.collectives import broadcast_from_first, flatten, unflatten
from trainmark.train.torch.communication.team import Team, assemble
from trainmark.train.torch.communication.wire import Writer, Writers, message_wire_of
from trainmark.train.torch.protocols import Peers

GRADIENTS, WEIGHTS = 1, 2  # tags of messages; the default, 0, is that of versions
LEAVING = -1  # in place of a version: no more pushes until the next settling


def build(peers: Peers, settings: TrainConfig) -> "ParameterServer":
    """Asynchronous SGD: gradients are applied one by one, as they arrive at a server in the first worker."""
    return ParameterServer(peers, settings)


class ParameterServer:
    """A worker of asynchronous SGD; the first worker's process is also the server, on a thread of its own.

    A gradient is applied with the learning rate that the first worker has reached by then: workers follow one
    schedule, and the server has no other. Workers' own steps are not taken, so nothing may scale the loss.
    Weights are pulled in fp32; gradients are pushed in the wire precision.
    The server works from the first update after a settling to the next settling.
    """

    def __init__(self, peers: Peers, settings: TrainConfig) -> None:
        self._peers = peers
        self._writers = Writers(message_wire_of(settings))
        # On the host even where workers compute on accelerators: messages from anyone, in order of arrival.
        self._team = assemble(peers, "gloo") if peers.size > 1 else None
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._server: Server | None = None
        self._version = 0
        self._waited_s = 0.0
        self._staleness: list[int] = []

    def share(self, model: nn.Module) -> nn.Module:
        """The model itself, with the weights of the first worker."""
        self._model = model
        broadcast_from_first((*model.parameters(), *model.buffers()), self._peers)
        return model

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """This worker's gradients are applied at the server, and its weights are the newest."""
        self._optimizer = optimizer
        weights = _weights_of(optimizer)
        gradients = flatten(torch.zeros_like(p) if p.grad is None else p.grad for p in weights).cpu()
        started_s = time.perf_counter()
        if self._peers.rank == 0:
            server = self._running_server(optimizer)
            server.check()
            with server.lock:
                self._waited_s += time.perf_counter() - started_s
                newest, self._version = server.apply(gradients, self._version)
        else:
            newest, self._version = self._push_and_pull(gradients)
            self._waited_s += time.perf_counter() - started_s
        unflatten(newest, weights)

    def settle(self) -> None:
        """All gradients are applied and all workers hold the server's weights; the first has its optimizer's state."""
        started_s = time.perf_counter()
        if self._optimizer is not None:
            if self._peers.rank == 0:
                server = self._running_server(self._optimizer)
                self._staleness += server.stop()
                server.hand_over()
                self._server = None
            elif self._team is not None:
                dist.send(torch.tensor([LEAVING]), group=self._team.group, group_dst=0)
            self._version = 0
        if self._model is not None:
            # Also the sign that all workers have come here: the first sends when all others have left the server.
            broadcast_from_first(self._model.parameters(), self._peers)
        self._waited_s += time.perf_counter() - started_s

    def facts(self) -> EpochFacts:
        """Time that updates kept this worker waiting; from the first, the staleness of each applied gradient."""
        waited_s, self._waited_s = self._waited_s, 0.0
        facts: EpochFacts = {"waited_s": waited_s}
        if self._peers.rank == 0:
            facts["staleness"], self._staleness = self._staleness, []
            if self._server is not None:
                facts["staleness"] += self._server.take_staleness()
        return facts

    def state(self) -> dict[str, Any]:
        """Errors of compression that are still to be made good; the rest is in weights and optimizer, once settled."""
        return self._writers.state()

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        self._writers.load(state)

    def _running_server(self, optimizer: torch.optim.Optimizer) -> "Server":
        if self._server is None:
            self._server = Server(optimizer, self._team, Writer(self._writers.wire))
        return self._server

    def _push_and_pull(self, gradients: Tensor) -> tuple[Tensor, int]:
        """The newest weights and their version, after `gradients` were applied."""
        assert self._team is not None
        group = self._team.group
        dist.send(torch.tensor([self._version]), group=group, group_dst=0)
        dist.send(self._writers.writer(0).encode(gradients), group=group, group_dst=0, tag=GRADIENTS)
        version, weights = torch.empty(1, dtype=torch.int64), torch.empty_like(gradients)
        dist.recv(version, group=group, group_src=0)
        dist.recv(weights, group=group, group_src=0, tag=WEIGHTS)
        return weights, int(version.item())


class Server:
    """Weights and optimizer state, changed by one gradient at a time."""

    def __init__(self, optimizer: torch.optim.Optimizer, team: Team | None, reader: Writer) -> None:
        self.lock = threading.Lock()
        self._owner = optimizer
        self._optimizer = _twin(optimizer)
        self._weights = _weights_of(self._optimizer)
        self._team = team
        self._reader = reader
        self._version = 0
        self._staleness: list[int] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parameter-server")
        self._serving: Future[None] = self._thread.submit(self._serve)

    def apply(self, gradients: Tensor, version: int) -> tuple[Tensor, int]:
        """The weights after a step by `gradients`, which belong to weights of that version; and their version."""
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
        """Raises what ended the service, if it failed, so that the first worker does not go on alone."""
        if self._serving.done():
            self._serving.result()

    def take_staleness(self) -> list[int]:
        """By how many versions the weights of each applied gradient were behind, since the last call."""
        with self.lock:
            taken, self._staleness = self._staleness, []
        return taken

    def stop(self) -> list[int]:
        """The staleness that was not taken yet; comes back when all workers have left."""
        self._serving.result()
        self._thread.shutdown()
        return self.take_staleness()

    def hand_over(self) -> None:
        """The first worker's own weights and optimizer are as the server's."""
        unflatten(flatten(self._weights), _weights_of(self._owner))
        self._owner.load_state_dict(self._optimizer.state_dict())

    def _serve(self) -> None:
        """Answers pushes, in order of arrival, until all workers have left."""
        if self._team is None:
            return
        group, present = self._team.group, self._team.size - 1
        payload = self._reader.blank(flatten(self._weights).cpu())
        version = torch.empty(1, dtype=torch.int64)
        while present:
            worker = dist.recv(version, group=group)
            if version.item() == LEAVING:
                present -= 1
                continue
            dist.recv(payload, worker, group=group, tag=GRADIENTS)
            with self.lock:
                newest, newest_version = self.apply(self._reader.decode(payload), int(version.item()))
            dist.send(torch.tensor([newest_version]), worker, group=group)
            dist.send(newest, worker, group=group, tag=WEIGHTS)


def _weights_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _twin(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """An optimizer of the same kind and state, with weights of its own."""
    # Not copy.deepcopy(optimizer): that would keep only the attributes that the library's own optimizers have.
    twin = object.__new__(type(optimizer))
    twin.__dict__.update(copy.deepcopy(vars(optimizer)))
    return twin
