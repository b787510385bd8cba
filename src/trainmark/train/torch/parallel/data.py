"""Data parallelism: every worker has the whole model and its own samples; gradients are reduced."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import average_buffers
from trainmark.train.torch.compilation import compile_for_training
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.protocols import Parallelism, Parts, Pass, Scaler, StepPasses


class PassLoss(NamedTuple):
    """The mean loss of one pass, and its part in that of the step; not the pass, whose images would stay in memory."""

    loss: Tensor
    weight: float
    divisor: int


def one_pass(model: nn.Module, parts: Parts, samples: Pass) -> PassLoss:
    """Accumulates the gradients of one pass; returns its mean loss."""
    scaler = parts.arithmetic.scaler
    with parts.padding.of(samples.inputs, samples.sizes) if parts.padding else nullcontext():
        with parts.arithmetic.forward():
            loss = parts.task.loss(model, samples.inputs, samples.targets)
        weighted = loss if samples.weight == 1 else loss * samples.weight
        weighted = weighted if samples.divisor == 1 else weighted / samples.divisor
        scaled = weighted if scaler is None else scaler.scale(weighted)
        scaled.backward()  # type: ignore[no-untyped-call]
    return PassLoss(loss.detach(), samples.weight, samples.divisor)


def mean_loss(losses: Sequence[PassLoss]) -> Tensor:
    """The mean loss of a worker's samples from that of each pass; of a worker that only takes part, that of a pass."""
    total = sum(each.weight for each in losses)
    if len(losses) == 1 or total == 0:
        return losses[0].loss
    if losses[0].divisor > 1:
        return torch.stack([each.loss / each.divisor for each in losses]).sum()
    return torch.stack([each.loss * (each.weight / total) for each in losses]).sum()


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Scaler | None) -> dict[str, Any]:
    """The state for a checkpoint: tensors and plain values."""
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict() if scaler else {},
    }


def load_state(
    state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Scaler | None
) -> None:
    """Restores model, optimizer and loss scale from `state_of`."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if scaler:
        scaler.load_state_dict(state["scaler"])


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Data parallelism: every worker has the whole model and its own samples; gradients are reduced."""
    if parts.settings.batch_norm == "synchronised":
        model = synchronise(model, parts.replicas)
    return DataParallel(model, parts)


class DataParallel:
    """A whole model on every worker, whose gradients the communicator reduces."""

    def __init__(self, model: nn.Module, parts: Parts) -> None:
        self._parts = parts
        self._model = model.train()
        self._compiled = compile_for_training(model, parts.settings)
        self._wrapped = parts.communicator.wrap(self._compiled)
        self._scaler = parts.arithmetic.scaler

    def parameters(self) -> list[nn.Parameter]:
        """All weights."""
        return list(self._model.parameters())

    def forward_backward(self, passes: Sequence[Pass] | StepPasses) -> Tensor:
        """The mean loss of this worker's samples; gradients are reduced in the last of the accumulated passes."""
        if not self._compiled.training:  # after inference
            self._compiled.train()
        if len(passes) == 1:
            (only,) = passes
            return one_pass(self._wrapped, self._parts, only).loss
        # Only DistributedDataParallel reduces gradients in its backward pass.
        unreduced = getattr(self._wrapped, "no_sync", nullcontext)
        losses = []
        for number, samples in enumerate(passes, 1):
            with unreduced() if number < len(passes) else nullcontext():
                losses.append(one_pass(self._wrapped, self._parts, samples))
        return mean_loss(losses)

    def whole_model(self) -> nn.Module:
        """The model itself, with the running statistics of all workers."""
        average_buffers(self._model, self._parts.replicas)
        return self._model

    def compiled_model(self) -> nn.Module | None:
        """The model in its compiled form, without gradient reduction."""
        return self._compiled

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights, this worker's running statistics, and the state of optimizer, loss scale and communicator."""
        communicator = self._parts.communicator.state()
        return {**state_of(self._model, optimizer, self._scaler), "communicator": communicator}

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Restores what `state` returned on this worker."""
        load_state(state, self._model, optimizer, self._scaler)
        self._parts.communicator.load(state["communicator"])

    def facts(self) -> EpochFacts:
        """Measurements of the communicator, and what the model counted."""
        return {**self._parts.communicator.facts(), **self._parts.task.facts(self._model)}
