"""One stage of a pipeline: consecutive layers of a model, and what is handed from one stage to the next."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from trainmark.train.parallelism import Parts
from trainmark.train.stopwatch import Stopwatch


class Boundary(NamedTuple):
    """What crosses between two stages for one sample. It travels flat, in the order of its memory."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    channels_last: bool

    def pack(self, x: Tensor) -> Tensor:
        """All values in one row; no copy where they already lie so."""
        return (x.movedim(1, -1) if self.channels_last else x).reshape(-1)

    def unpack(self, flat: Tensor) -> Tensor:
        """The samples that `pack` made flat."""
        if self.channels_last:
            channels, *sizes = self.shape
            return flat.view(-1, *sizes, channels).movedim(-1, 1)
        return flat.view(-1, *self.shape)

    def example(self, samples: int, *, learns: bool) -> Tensor:
        """The flat form of so many samples, without values; `learns`: whether a gradient comes back."""
        return torch.empty(samples * prod(self.shape), dtype=self.dtype, device="meta", requires_grad=learns)


@torch.no_grad()
def boundaries(model: nn.Sequential, parts: Parts) -> list[Boundary]:
    """What goes into each layer, and what comes out of the last; seen by a sample of zeros, in evaluation mode.

    torch would find out by itself, by a training pass over zeros that stays in batch normalisation's statistics.
    """
    was_training = model.training
    model.eval()
    crossing = [torch.zeros(1, *parts.sample_shape, device=parts.workers.device)]
    with parts.arithmetic.forward():
        for layer in model:
            crossing.append(layer(crossing[-1]))
    model.train(was_training)
    nhwc = parts.settings.memory_format == "channels-last"
    return [Boundary(tuple(x.shape[1:]), x.dtype, nhwc and x.dim() == 4) for x in crossing]


class StageLayers(nn.Module):
    """The layers of a stage, from flat input to flat output, in the arithmetic of the run."""

    def __init__(
        self,
        layers: nn.Module,
        taken: Boundary,
        given: Boundary,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        super().__init__()
        self.layers, self.taken, self.given, self.arithmetic = layers, taken, given, arithmetic

    def forward(self, flat: Tensor) -> Tensor:
        """What the next stage takes."""
        with self.arithmetic():
            return self.given.pack(self.layers(self.taken.unpack(flat)))


class TimedStage(PipelineStage):
    """torch's stage; the time of its own forward and backward passes counts as `busy`."""

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
