"""Data parallelism: every worker has the whole model and its own samples; gradients are reduced."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import average_buffers
from trainmark.train.torch.compilation import compile_for_training
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.protocols import Parallelism, Parts, Scaler


def one_pass(model: nn.Module, parts: Parts, inputs: Tensor, targets: Tensor) -> Tensor:
    """Accumulates the gradients of one pass; returns its part of the mean loss."""
    scaler, passes = parts.arithmetic.scaler, parts.settings.accumulation
    with parts.arithmetic.forward():
        loss = parts.task.loss(model, inputs, targets)
    if passes > 1:
        loss = loss / passes
    scaled = loss if scaler is None else scaler.scale(loss)
    scaled.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


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

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of this worker's samples; gradients are reduced in the last of the accumulated passes."""
        if not self._compiled.training:  # after inference
            self._compiled.train()
        passes = self._parts.settings.accumulation
        if passes == 1:
            return one_pass(self._wrapped, self._parts, inputs, targets)
        *earlier, last = zip(inputs.chunk(passes), targets.chunk(passes), strict=True)
        # Only DistributedDataParallel reduces gradients in its backward pass.
        with getattr(self._wrapped, "no_sync", nullcontext)():
            losses = [one_pass(self._wrapped, self._parts, *samples) for samples in earlier]
        return torch.stack([*losses, one_pass(self._wrapped, self._parts, *last)]).sum()

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
