"""Faster forms of a model for the training step: compiled, scripted, or in oneDNN's layout; weights are shared."""

import warnings
from typing import cast

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig


def faster_form(model: nn.Module, settings: TrainConfig) -> nn.Module:
    """What the training step calls in place of `model`; predictions and checkpoints go on using `model` itself."""
    if settings.torch.memory_format == "onednn":
        return BlockedLayout(model)
    if settings.torch.compiler == "inductor":
        return cast(nn.Module, torch.compile(model))
    if settings.torch.compiler == "torchscript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # deprecated, but still what some sites compare with
            scripted: nn.Module = torch.jit.script(model)
        return scripted
    return model


def image_layout(settings: TrainConfig) -> torch.memory_format:
    """The order in which images and convolution weights are stored."""
    return torch.channels_last if settings.torch.memory_format == "channels-last" else torch.contiguous_format


class BlockedLayout(nn.Module):
    """The model between two changes of layout: inside, oneDNN keeps activations in blocks of its own choice."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """The model's outputs, in the common layout."""
        outputs: Tensor = self.model(inputs.to_mkldnn())
        return outputs.to_dense()
