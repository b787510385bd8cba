"""Sharded data parallelism: weights, gradients and optimizer state are sharded over the workers."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter
from torch.distributed.tensor import DTensor

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import average_buffers
from trainmark.train.torch.parallel import data
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.parallel.data import mean_loss, one_pass
from trainmark.train.torch.protocols import Parallelism, Parts, Pass, StepPasses


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Sharded data parallelism (FSDP): weights, gradients and optimizer state are sharded over the workers."""
    if parts.workers.size == 1:
        return data.build(model, parts)
    if parts.settings.batch_norm == "synchronised":
        model = synchronise(model, parts.replicas)
    return Sharded(model, parts)


class _Timed:
    """One of FSDP's collectives, timed; on the CPU, calls are blocking."""

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
    """A model whose layers are gathered only while they are used."""

    def __init__(self, model: nn.Module, parts: Parts) -> None:
        self._parts = parts
        self._collectives = (_Timed(DefaultAllGather()), _Timed(DefaultReduceScatter()))
        assert parts.workers.group is not None
        mesh = DeviceMesh.from_group(parts.workers.group, parts.workers.device.type)
        # FSDP shards the first dimension, so weights are contiguous; convolutions follow the images' memory format.
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

    def forward_backward(self, passes: Sequence[Pass] | StepPasses) -> Tensor:
        """The mean loss of this worker's samples; gradients are averaged in the last of the accumulated passes."""
        losses = []
        for number, samples in enumerate(passes, 1):
            self._root.set_requires_gradient_sync(number == len(passes))
            losses.append(one_pass(self._model, self._parts, samples))
        return mean_loss(losses)

    @torch.no_grad()
    def whole_model(self) -> nn.Module:
        """A new model with all weights and running statistics averaged over the workers."""
        average_buffers(self._model, self._parts.workers)
        with torch.random.fork_rng():
            whole = self._parts.build_model()
        target = {**dict(whole.named_parameters()), **dict(whole.named_buffers())}
        for name, weight in self._model.named_parameters():
            target[name].copy_(weight.full_tensor())  # type: ignore[attr-defined]
        for name, buffer in self._model.named_buffers():
            target[name].copy_(buffer)
        return whole

    def compiled_model(self) -> nn.Module | None:
        """None: every worker has a shard of each weight."""
        return None

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """This worker's shards, running statistics and optimizer state."""
        scaler = self._parts.arithmetic.scaler
        saved = optimizer.state_dict()
        return {
            "model": {name: _shard(value) for name, value in self._model.state_dict().items()},
            "optimizer": {**saved, "state": {index: _local(of_weight) for index, of_weight in saved["state"].items()}},
            "scaler": scaler.state_dict() if scaler else {},
        }

    @torch.no_grad()
    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Restores what `state` returned on this worker, with the same number of workers."""
        for name, value in self._model.state_dict().items():
            _shard(value).copy_(state["model"][name])
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        saved = state["optimizer"]
        sharded = {index: _sharded(of_weight, weights[index]) for index, of_weight in saved["state"].items()}
        optimizer.load_state_dict({**saved, "state": sharded})
        if self._parts.arithmetic.scaler:
            self._parts.arithmetic.scaler.load_state_dict(state["scaler"])

    def facts(self) -> EpochFacts:
        """The time of FSDP's collectives, and what the model counted."""
        return {**self._waiting(), **self._parts.task.facts(self._model)}

    def _waiting(self) -> EpochFacts:
        """The time that gathering weights and reducing gradients kept this worker waiting."""
        if self._parts.workers.device.type == "cuda":
            # The calls return at once; waiting happens between streams, where it cannot be timed.
            return {"waited_s": None, "waited_reason": "FSDP's collectives wait on their own streams"}
        waited_s = sum(collective.seconds for collective in self._collectives)
        for collective in self._collectives:
            collective.seconds = 0.0
        return {"waited_s": waited_s}


def _shard(value: Tensor) -> Tensor:
    """This worker's shard of a value."""
    return value.to_local() if isinstance(value, DTensor) else value


def _local(of_weight: dict[str, Any]) -> dict[str, Any]:
    """The optimizer state of one weight, with local shards in place of DTensors."""
    return {
        key: {"shard": value.to_local()} if isinstance(value, DTensor) else value for key, value in of_weight.items()
    }


def _sharded(of_weight: dict[str, Any], weight: DTensor) -> dict[str, Any]:
    """The reverse of `_local`, with the placements of `weight`."""
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
