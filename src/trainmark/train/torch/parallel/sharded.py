"""Sharded data parallelism: weights, gradients and optimizer state are cut into shards, one for each worker."""

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter
from torch.distributed.tensor import DTensor

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import average_statistics
from trainmark.train.torch.parallel import data
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.parallel.data import one_pass
from trainmark.train.torch.protocols import Parallelism, Parts


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Sharded data parallelism (FSDP): weights, gradients and optimizer state are sharded over the workers."""
    if parts.workers.size == 1:
        return data.build(model, parts)
    if parts.settings.batch_norm == "synchronised":
        model = synchronise(model, parts.replicas)
    return Sharded(model, parts)


class _Timed:
    """One of FSDP's collectives, with the time that its calls take; on the CPU a call returns when it is done."""

    def __init__(self, collective: Any) -> None:
        self._collective = collective
        self.allocate = collective.allocate
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        start = time.perf_counter()
        work = self._collective(*arguments, **settings)
        self.seconds += time.perf_counter() - start
        return work


class Sharded:
    """A model whose layers are whole only while they are used."""

    def __init__(self, model: nn.Module, parts: Parts) -> None:
        self._parts = parts
        self._collectives = (_Timed(DefaultAllGather()), _Timed(DefaultReduceScatter()))
        assert parts.workers.group is not None
        mesh = DeviceMesh.from_group(parts.workers.group, parts.workers.device.type)
        # FSDP cuts rows, so weights are stored in rows; convolutions follow the layout of the images all the same.
        model = model.to(memory_format=torch.contiguous_format).train()  # type: ignore[call-overload]
        for unit in (*model.children(), model):
            if any(True for _ in unit.parameters()):
                self._root = fully_shard(unit, mesh=mesh)
                self._root.set_custom_all_gather(self._collectives[0])  # type: ignore[arg-type]
                self._root.set_custom_reduce_scatter(self._collectives[1])  # type: ignore[arg-type]
        self._model: nn.Module = model

    def parameters(self) -> list[nn.Parameter]:
        """This worker's shards."""
        return list(self._model.parameters())

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of this worker's samples; gradients are averaged in the last of the accumulated passes."""
        passes = self._parts.settings.accumulation
        if passes == 1:
            return one_pass(self._model, self._parts, inputs, targets)
        losses = []
        for number, samples in enumerate(zip(inputs.chunk(passes), targets.chunk(passes), strict=True), 1):
            self._root.set_requires_gradient_sync(number == passes)
            losses.append(one_pass(self._model, self._parts, *samples))
        return torch.stack(losses).sum()

    @torch.no_grad()
    def whole_model(self) -> nn.Module:
        """A model of its own with all weights, and the running statistics of all workers."""
        average_statistics(self._model, self._parts.workers)
        with torch.random.fork_rng():
            whole = self._parts.build_model()
        target = {**dict(whole.named_parameters()), **dict(whole.named_buffers())}
        for name, weight in self._model.named_parameters():
            target[name].copy_(weight.full_tensor())  # type: ignore[attr-defined]
        for name, buffer in self._model.named_buffers():
            target[name].copy_(buffer)
        return whole

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """This worker's shards and running statistics, and the optimizer's state of those shards."""
        scaler = self._parts.arithmetic.scaler
        saved = optimizer.state_dict()
        return {
            "model": {name: _shard(value) for name, value in self._model.state_dict().items()},
            "optimizer": {**saved, "state": {place: _cut(of_weight) for place, of_weight in saved["state"].items()}},
            "scaler": scaler.state_dict() if scaler else {},
        }

    @torch.no_grad()
    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Goes on from what `state` gave on this worker, among as many workers."""
        for name, value in self._model.state_dict().items():
            _shard(value).copy_(state["model"][name])
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        saved = state["optimizer"]
        joined = {place: _joined(of_weight, weights[place]) for place, of_weight in saved["state"].items()}
        optimizer.load_state_dict({**saved, "state": joined})
        if self._parts.arithmetic.scaler:
            self._parts.arithmetic.scaler.load_state_dict(state["scaler"])

    def facts(self) -> EpochFacts:
        """The time that gathering weights and averaging gradients took, and what the model counted."""
        return {**self._waiting(), **self._parts.task.facts(self._model)}

    def _waiting(self) -> EpochFacts:
        """The time that gathering weights and averaging gradients kept this worker from computing."""
        if self._parts.workers.device.type == "cuda":
            # The calls return at once; the waiting happens between streams, where this process has no clock.
            return {"waited_s": None, "waited_reason": "FSDP's collectives wait on streams of its own"}
        waited_s = sum(collective.seconds for collective in self._collectives)
        for collective in self._collectives:
            collective.seconds = 0.0
        return {"waited_s": waited_s}


def _shard(value: Tensor) -> Tensor:
    """This worker's part of a value."""
    return value.to_local() if isinstance(value, DTensor) else value


def _cut(of_weight: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's values of one weight, with each that is cut up as a weight is marked as a shard."""
    return {
        key: {"shard": value.to_local()} if isinstance(value, DTensor) else value for key, value in of_weight.items()
    }


def _joined(of_weight: dict[str, Any], weight: DTensor) -> dict[str, Any]:
    """What `_cut` took apart, cut up as `weight` is."""
    return {
        key: DTensor.from_local(
            value["shard"],
            weight.device_mesh,
            weight.placements,
            run_check=False,
            shape=weight.shape,
            stride=weight.stride(),
        )
        if isinstance(value, dict)
        else value
        for key, value in of_weight.items()
    }
