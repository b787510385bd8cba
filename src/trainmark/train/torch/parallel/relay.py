"""Relay: one batch at a time through the stages of a model, whatever its shape; activations forward, gradients back."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainmark.train.torch.parallel.stages import Boundary
from trainmark.train.torch.protocols import Parts, Pass
from trainmark.train.torch.stopwatch import Stopwatch


class StageShapes:
    """The shapes of a stage's inputs and outputs for any batch, found on the meta device and kept."""

    def __init__(self, model: nn.Sequential, layers: range) -> None:
        # Evaluation: a single image may leave batch normalisation one value per channel.
        whole = copy.deepcopy(model).to("meta").eval()
        self._before, self._own = whole[: layers.start], whole[layers.start : layers.stop]
        self._known: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def of(self, batch: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What one sample of the batch brings in and what it hands on."""
        shape = tuple(batch.shape[1:])
        if shape not in self._known:
            with torch.no_grad():
                inputs = self._before(torch.empty(1, *shape, device="meta"))
                self._known[shape] = tuple(inputs.shape[1:]), tuple(self._own(inputs).shape[1:])
        return self._known[shape]


class Ends(NamedTuple):
    """What crosses the two ends of a stage; their shapes are replaced by those of each batch."""

    inputs: Boundary
    outputs: Boundary


class Relay:
    """The stage of one worker."""

    def __init__(
        self,
        layers: nn.Module,
        shapes: StageShapes,
        ends: Ends,
        parts: Parts,
        group: dist.ProcessGroup | None,
        watch: Stopwatch,
    ) -> None:
        self._layers, self._shapes, self._ends = layers, shapes, ends
        self._parts, self._group, self._watch = parts, group, watch
        self._place = parts.layout.stage_of(parts.workers.rank)
        self._is_last = self._place == parts.layout.stages - 1

    def run(self, samples: Pass, loss_of: Callable[[Tensor, Pass], Tensor]) -> None:
        """Accumulates the gradients of one pass; `loss_of` is called on the last stage, with the model's outputs."""
        shape_in, shape_out = self._shapes.of(samples.inputs)
        before, after = self._ends.inputs._replace(shape=shape_in), self._ends.outputs._replace(shape=shape_out)
        count = len(samples.inputs)
        entered = self._receive(before, count, self._place - 1).requires_grad_() if self._place else None
        with self._watch.section("busy"), self._parts.arithmetic.forward():
            outputs = self._layers(samples.inputs if entered is None else before.unpack(entered))
        if self._is_last:
            end, gradient = loss_of(outputs, samples), None
        else:
            end = after.pack(outputs)
            self._send(end.detach(), self._place + 1)
            gradient = self._receive(after, count, self._place + 1)
        with self._watch.section("busy"):
            torch.autograd.backward(end, gradient)
        if entered is not None:
            assert entered.grad is not None
            self._send(entered.grad, self._place - 1)

    def _send(self, flat: Tensor, to: int) -> None:
        dist.send(flat.contiguous(), group=self._group, group_dst=to)

    def _receive(self, boundary: Boundary, samples: int, source: int) -> Tensor:
        flat = torch.empty_like(boundary.example(samples, requires_grad=False), device=self._parts.workers.device)
        dist.recv(flat, group=self._group, group_src=source)
        return flat
