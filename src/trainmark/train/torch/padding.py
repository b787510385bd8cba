"""Padding of images of unlike shape: kept out of convolutions, batch statistics and pooling where that is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

MIXING = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)  # layers whose outputs depend on neighbouring pixels

Resolution = tuple[int, int]  # height and width of a feature map


class PaddingMask:
    """Which pixels of each feature map are informative, while a padded batch is in the model.

    An image and its features are in the top left corner. A feature map of each layer is as large as it would be for
    the image alone, so sizes follow from those of the layer before; layers of one resolution share them.
    """

    def __init__(self) -> None:
        self._sizes: dict[Resolution, Tensor] = {}  # of each image, a row of height and width
        self._masks: dict[Resolution, Tensor] = {}

    @contextmanager
    def of(self, inputs: Tensor, sizes: Tensor | None) -> Iterator[None]:
        """Inside, a model that this is attached to sees the padding of `inputs`; forward and backward pass."""
        if sizes is not None:
            self._sizes = {_resolution(inputs): sizes}
        try:
            yield
        finally:
            self._sizes, self._masks = {}, {}

    def attach(self, model: nn.Module) -> nn.Module:
        """Makes the model heed the mask; without padding it computes the same as before."""
        for layer in model.modules():
            if isinstance(layer, MIXING):
                layer.register_forward_pre_hook(self._zero_padding)
                layer.register_forward_hook(self._follow)
            elif isinstance(layer, nn.BatchNorm2d):
                layer.forward = partial(self._normalise, layer, layer.forward)  # type: ignore[method-assign]
            elif isinstance(layer, nn.AdaptiveAvgPool2d):
                layer.forward = partial(self._pool, layer.forward)  # type: ignore[method-assign]
        return model

    def _mask(self, features: Tensor) -> Tensor | None:
        """1 for informative pixels, else 0; None without padding."""
        at = _resolution(features)
        if at not in self._sizes:
            return None
        if at not in self._masks:
            heights, widths = self._sizes[at].to(features.device).unbind(1)
            rows = torch.arange(at[0], device=features.device) < heights[:, None]
            columns = torch.arange(at[1], device=features.device) < widths[:, None]
            self._masks[at] = rows[:, None, :, None] & columns[:, None, None, :]
        return self._masks[at].to(features.dtype)

    def _zero_padding(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Zeros beyond an image's edge, as a convolution of the image alone would see them."""
        mask = None if _sees_one_pixel(layer) else self._mask(inputs[0])
        return None if mask is None else (inputs[0] * mask,)

    def _follow(self, layer: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
        """Notes the sizes of the layer's outputs."""
        sizes = self._sizes.get(_resolution(inputs[0]))
        if sizes is not None and _resolution(outputs) not in self._sizes:
            self._sizes[_resolution(outputs)] = _sizes_after(layer, sizes)

    def _normalise(self, layer: nn.BatchNorm2d, plain: Any, features: Tensor) -> Tensor:
        """Batch normalisation by the statistics of informative pixels."""
        mask = self._mask(features) if layer.training else None
        if mask is None:
            normalised: Tensor = plain(features)
            return normalised
        exact = features if features.dtype == torch.float64 else features.float()  # statistics in fp32, as torch's own
        mask = mask.to(exact.dtype)
        values = mask.sum()
        mean = (exact * mask).sum((0, 2, 3)) / values
        centred = exact - mean[:, None, None]
        variance = (centred.square() * mask).sum((0, 2, 3)) / values
        if layer.track_running_stats and layer.running_mean is not None and layer.running_var is not None:
            assert layer.num_batches_tracked is not None and layer.momentum is not None
            with torch.no_grad():
                layer.num_batches_tracked.add_(1)
                layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), layer.momentum)
                layer.running_var.lerp_(
                    (variance * values / (values - 1).clamp(min=1)).to(layer.running_var), layer.momentum
                )
        scale = layer.weight * torch.rsqrt(variance + layer.eps)
        return (centred * scale[:, None, None] + layer.bias[:, None, None]).to(features.dtype)

    def _pool(self, plain: Any, features: Tensor) -> Tensor:
        """Global average pooling of informative pixels."""
        mask = self._mask(features)
        if mask is None:
            pooled: Tensor = plain(features)
            return pooled
        return (features * mask).sum((2, 3), keepdim=True) / mask.sum((2, 3), keepdim=True)


def zero_padding(images: Tensor, sizes: Tensor) -> Tensor:
    """The normalised images with zeros beyond their own height and width, in place."""
    for image, (height, width) in zip(images, sizes.tolist(), strict=True):
        image[:, height:] = 0
        image[:, :height, width:] = 0
    return images


def _resolution(features: Tensor) -> Resolution:
    return features.shape[-2], features.shape[-1]


def _sees_one_pixel(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)


def _sizes_after(layer: Any, sizes: Tensor) -> Tensor:
    """The sizes of a layer's outputs for images alone."""
    per_axis = (_pair(getattr(layer, name, 1)) for name in ("kernel_size", "stride", "padding", "dilation"))
    kernel, stride, padding, dilation = (torch.tensor(pair) for pair in per_axis)
    return torch.div(sizes + 2 * padding - dilation * (kernel - 1) - 1, stride, rounding_mode="floor") + 1


def _pair(value: Any) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)
