"""Stages of a pipeline: how a model's layers are split, and what is sent from one stage to the next."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from trainmark.spec.errors import PlanError
from trainmark.train.torch.protocols import Parts
from trainmark.train.torch.stopwatch import Stopwatch
from trainmark.workloads.flops.count import memory_by_layer, training_flop_by_layer


def balanced_split(costs: Sequence[float], parts: int) -> list[range]:
    """Splits costs into `parts` consecutive, non-empty ranges that minimise the largest sum."""
    assert 1 <= parts <= len(costs)
    before = [0, *accumulate(costs)]
    # best[i]: the minimal largest part of the first i costs in the parts so far, and where the last part starts.
    best: list[tuple[float, int]] = [(total, 0) for total in before]
    starts: list[list[int]] = []
    for part in range(2, parts + 1):
        starts.append([start for _, start in best])
        best = [
            min(
                ((max(best[start][0], before[end] - before[start]), start) for start in range(part - 1, end)),
                default=(float("inf"), 0),
            )
            for end in range(len(costs) + 1)
        ]
    starts.append([start for _, start in best])
    ranges: list[range] = []
    end = len(costs)
    for of_part in reversed(starts):
        ranges.insert(0, range(of_part[end], end))
        end = of_part[end]
    return ranges


def stages_of(model: nn.Module, stages: int, sample_shape: tuple[int, ...], samples: int | None = None) -> list[range]:
    """The layers of each stage, as positions in the sequential model, balanced by their training FLOPs.

    By memory if `samples` of a batch pass one stage after another, which takes as long however they are split.
    """
    if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
        raise PlanError(
            f"Stages need a plain nn.Sequential, but the model is a {type(model).__name__}. "
            "Choose --set train.parallel=sharded or data."
        )
    units = _units(model)
    if len(units) < stages:
        raise PlanError(
            f"The model has {len(units)} layers with weights, too few for {stages} stages. "
            f"Choose --set train.stages={len(units)} or fewer, or --set train.parallel=sharded."
        )
    cost = training_flop_by_layer(model, sample_shape)
    if samples is not None:
        cost = memory_by_layer(model, sample_shape, samples)
    split = balanced_split([sum(cost[layer] for layer in unit) for unit in units], stages)
    return [range(units[part[0]].start, units[part[-1]].stop) for part in split]


def _units(model: nn.Sequential) -> list[range]:
    """Layers that stay together: one with weights and those without weights that follow it.

    So no stage is without weights, hence without an optimizer, and activation functions are applied before sending.
    """
    starts = [index for index, layer in enumerate(model) if any(True for _ in layer.parameters())]
    ends = [*starts[1:], len(model)]
    return [range(start if unit else 0, end) for unit, (start, end) in enumerate(zip(starts, ends, strict=True))]


class Boundary(NamedTuple):
    """The activation that one sample sends between two stages; sent flat, in memory order."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    channels_last: bool

    def pack(self, x: Tensor) -> Tensor:
        """Flattens to one row; no copy if memory already has that order."""
        return (x.movedim(1, -1) if self.channels_last else x).reshape(-1)

    def unpack(self, flat: Tensor) -> Tensor:
        """The reverse of `pack`."""
        if self.channels_last:
            channels, *sizes = self.shape
            return flat.view(-1, *sizes, channels).movedim(-1, 1)
        return flat.view(-1, *self.shape)

    def example(self, samples: int, *, requires_grad: bool) -> Tensor:
        """The flat form of `samples` samples on the meta device."""
        return torch.empty(samples * prod(self.shape), dtype=self.dtype, device="meta", requires_grad=requires_grad)


@torch.no_grad()
def boundaries(model: nn.Sequential, parts: Parts) -> list[Boundary]:
    """The inputs of each layer and the outputs of the last, found with a sample of zeros in evaluation mode.

    torch would infer them by a training pass over zeros, which would enter batch normalisation's statistics.
    """
    was_training = model.training
    model.eval()
    nhwc = parts.settings.torch.memory_format == "channels-last"
    x = torch.zeros(1, *parts.sample_shape, device=parts.workers.device)
    crossing = [Boundary(tuple(x.shape[1:]), x.dtype, nhwc and x.dim() == 4)]
    with parts.arithmetic.forward():
        for layer in model:
            x = layer(x)
            crossing.append(Boundary(tuple(x.shape[1:]), x.dtype, nhwc and x.dim() == 4))
    model.train(was_training)
    return crossing


class StageLayers(nn.Module):
    """The layers of a stage, from flat input to flat output, in the arithmetic of the run."""

    def __init__(
        self,
        layers: nn.Module,
        inputs: Boundary,
        outputs: Boundary,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        super().__init__()
        self.layers, self.inputs, self.outputs, self.arithmetic = layers, inputs, outputs, arithmetic

    def forward(self, flat: Tensor) -> Tensor:
        """The input of the next stage."""
        with self.arithmetic():
            return self.outputs.pack(self.layers(self.inputs.unpack(flat)))


class TimedStage(PipelineStage):
    """torch's PipelineStage, with its forward and backward time counted as `busy`."""

    def __init__(self, *arguments: Any, watch: Stopwatch, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._watch = watch

    def forward_one_chunk(self, *arguments: Any, **settings: Any) -> Any:
        """One micro-batch forward."""
        with self._watch.section("busy"):
            return super().forward_one_chunk(*arguments, **settings)

    def backward_one_chunk(self, *arguments: Any, **settings: Any) -> Any:
        """One micro-batch backward."""
        with self._watch.section("busy"):
            return super().backward_one_chunk(*arguments, **settings)
