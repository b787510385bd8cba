"""Compiled forms of a model for the training step: TorchInductor, TorchScript, or oneDNN's blocked layout."""

import warnings
from typing import cast

import torch
from torch import Tensor, nn

from trainmark.spec.config import TrainConfig


def compile_for_training(model: nn.Module, settings: TrainConfig) -> nn.Module:
    """Returns what the training step calls in place of `model`, with shared weights; predictions use `model` itself."""
    if settings.torch.memory_format == "onednn":
        return BlockedLayout(model)
    if settings.torch.compiler == "inductor":
        return cast(nn.Module, torch.compile(model))
    if settings.torch.compiler == "torchscript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # deprecated, but some sites still compare with it
            scripted: nn.Module = torch.jit.script(model)
        return scripted
    return model


def image_memory_format(settings: TrainConfig) -> torch.memory_format:
    """The memory format of images and convolution weights."""
    return torch.channels_last if settings.torch.memory_format == "channels-last" else torch.contiguous_format


def uses_onednn() -> bool:
    """Whether torch has oneDNN, and it is enabled."""
    return bool(torch._C._has_mkldnn) and bool(torch.backends.mkldnn.enabled)


class BlockedLayout(nn.Module):
    """The model in oneDNN's blocked layout, converted on the way in and out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """The model's outputs, in the dense layout."""
        outputs: Tensor = self.model(inputs.to_mkldnn())
        return outputs.to_dense()
