"""int8: all three products of every convolution and linear layer on int8 operands, with fp32 master weights.

Scales are symmetric. A scale can be factored out of a sum only if it is the same for all terms, so with per-channel
scales each product quantises its operands along the dimension that it keeps:

    product              sums over                    scales of its operands
    outputs              input channels, kernel       x: per sample           weights: per output channel
    input gradient       output channels, kernel      dy: per sample          weights: per input channel
    weight gradient      samples, positions           dy: per output channel  x: per input channel

With per-tensor scales there is one per operand. Output gradients use stochastic rounding, which is unbiased; inputs and
weights are rounded to nearest. First and last layer are included; biases, normalisation, loss and updates are fp32.
Inputs are saved in fp32 for the backward pass, since the preceding layers mostly keep them anyway.
Freshly initialised deep networks are chaotic: before its first step, the gradient of ResNet-50 has a cosine similarity
to fp32's of 0.2 in bf16 and 0.05 in int8; after 30 steps 0.998 in int8 (0.990 with rounding to nearest).
"""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.machine.ceilings import has_exact_int_mm
from trainmark.spec.config import TrainConfig
from trainmark.train.torch.precision.floating import allow_tf32
from trainmark.train.torch.precision.int8_products import EmulatedProducts, Geometry, IntegerProducts, Products
from trainmark.train.torch.protocols import Arithmetic

# Symmetric: −128 is not used, so that the rounding of x and −x is the same.
LARGEST = 127
# 2^-17 wider than the largest value needs, so that rounding errors and noise below ½ never reach 127.5.
SLACK = 1 + 2.0**-17
SMALLEST_SCALE = 1e-30  # for all-zero tensors: quotients stay finite


class Quantised(NamedTuple):
    """`values` × `scale` is the tensor to within scale / 2 (scale, with stochastic rounding)."""

    values: Tensor
    scale: Tensor


def quantise(tensor: Tensor, kept: tuple[int, ...], *, stochastic: bool = False) -> Quantised:
    """Quantises a contiguous fp32 tensor, with one scale per index of the `kept` dimensions (none: one scale)."""
    summed = [dimension for dimension in range(tensor.ndim) if dimension not in kept]
    # NaN and infinity enter the scale, and so every product: divergence stays visible.
    largest = torch.maximum(tensor.amax(summed, keepdim=True), -tensor.amin(summed, keepdim=True))
    scale = (largest * (SLACK / LARGEST)).clamp_min(SMALLEST_SCALE)
    steps = tensor * scale.reciprocal()
    if stochastic:
        steps.add_(_noise(tensor), alpha=2.0**-16)
    return Quantised(steps.round_().to(torch.int8), scale)


def _noise(tensor: Tensor) -> Tensor:
    """Uniform 16-bit integers in the tensor's shape, from torch's generator: a quarter of the draws that floats need.

    Added in units of 2^-16 before rounding to nearest, they make rounding unbiased to within 2^-17.
    """
    draws = torch.empty(-(-tensor.numel() // 4), dtype=torch.int64, device=tensor.device)
    draws.random_(torch.iinfo(torch.int64).min, None)
    return draws.view(torch.int16)[: tensor.numel()].view(tensor.shape)


class Layer(NamedTuple):
    """How one layer computes."""

    products: Products
    geometry: Geometry
    scales: Literal["tensor", "channel"]

    def kept(self, *dimensions: int) -> tuple[int, ...]:
        """The dimensions with one scale per index."""
        return dimensions if self.scales == "channel" else ()


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Forward and backward products of convolutions and linear layers on int8, the rest and the weights in fp32."""
    # Integers up to 127 are exact in tf32, which sums in fp32: emulated convolutions stay exact.
    allow_tf32(convolutions=True, matrices=False)
    is_exact = has_exact_int_mm(device)
    scales = settings.torch.int8_scales
    how = (
        "int8 matrix products, int32 sums; grouped convolutions emulated in fp32"
        if is_exact
        else f"emulated: products of int8 values in fp32, as this {device.type} has no exact int8 matrix product"
    )

    def convert(model: nn.Module) -> nn.Module:
        for module in model.modules():
            _convert_layer(module, is_exact, scales)
        return model

    # int8 rounds by 1/254 of the largest value per layer; observed on the tiny workload: 6.0e-3 (16 steps).
    note = f"{how}; scales per {scales}, fp32 weights"
    return Arithmetic(note=note, convert=convert, loss_tolerance=0.02)


def _convert_layer(module: nn.Module, is_exact: bool, scales: Literal["tensor", "channel"]) -> None:
    """Switches a convolution or linear layer to int8 by changing its class; parameters stay."""
    if type(module) is nn.Conv2d:
        products: Products = IntegerProducts() if is_exact and module.groups == 1 else EmulatedProducts()
        padding = (0, 0) if _pads_itself(module) else module.padding
        geometry = Geometry(_pair(module.stride), _pair(padding), _pair(module.dilation), module.groups)
        module.__class__ = Int8Conv2d
    elif type(module) is nn.Linear:
        products = IntegerProducts() if is_exact else EmulatedProducts()
        geometry = Geometry()
        module.__class__ = Int8Linear
    else:
        return
    module.int8 = Layer(products, geometry, scales)  # type: ignore[assignment]


def _pads_itself(module: nn.Conv2d) -> bool:
    return module.padding_mode != "zeros" or isinstance(module.padding, str)


def _pair(values: Any) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)


class Int8Conv2d(nn.Conv2d):
    """A convolution that computes in int8."""

    int8: Layer

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if _pads_itself(self):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=mode)
        outputs: Tensor = Int8Product.apply(input, weight, self.int8)  # type: ignore[no-untyped-call]
        return outputs if bias is None else outputs + bias.view(1, -1, 1, 1)


class Int8Linear(nn.Linear):
    """A linear layer that computes in int8: a convolution over one pixel."""

    int8: Layer

    def forward(self, input: Tensor) -> Tensor:
        """The layer's outputs."""
        pixels = input.reshape(-1, self.in_features, 1, 1)
        outputs: Tensor = Int8Product.apply(  # type: ignore[no-untyped-call]
            pixels, self.weight[:, :, None, None], self.int8
        )
        rows = outputs.reshape(*input.shape[:-1], self.out_features)
        return rows if self.bias is None else rows + self.bias


class Int8Product(torch.autograd.Function):
    """A convolution without bias, and its gradients, on int8 operands."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
        """Returns outputs in the memory format of the input."""
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        pixels = quantise(_channels_last(x), layer.kept(0))
        weights = quantise(weight, layer.kept(0))
        sums = layer.products.outputs(pixels.values, weights.values, layer.geometry)
        outputs = (sums * (pixels.scale * weights.scale.reshape(1, 1, 1, -1))).permute(0, 3, 1, 2)
        return outputs if x.is_contiguous(memory_format=torch.channels_last) else outputs.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Returns the required gradients of input and weight."""
        x, weight = ctx.saved_tensors
        wants_input, wants_weight, _ = ctx.needs_input_grad
        dy = _channels_last(gradients[0])
        dx = _input_gradient(dy, x, weight, ctx.layer) if wants_input else None
        dw = _weight_gradient(dy, x, weight, ctx.layer) if wants_weight else None
        return dx, dw, None


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
    pixels = quantise(dy, layer.kept(0), stochastic=True)
    # Groups have separate input channels: groups × outputs × inputs × kernel.
    weights = quantise(weight.reshape(layer.geometry.groups, -1, *weight.shape[1:]), layer.kept(0, 2))
    size = (x.shape[2], x.shape[3])
    sums = layer.products.input_gradient(pixels.values, weights.values.flatten(0, 1), layer.geometry, size)
    return (sums * (pixels.scale * weights.scale.reshape(1, 1, 1, -1))).permute(0, 3, 1, 2)


def _weight_gradient(dy: Tensor, x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
    outputs = quantise(dy, layer.kept(3), stochastic=True)
    inputs = quantise(_channels_last(x), layer.kept(3))
    kernel = (weight.shape[2], weight.shape[3])
    sums = layer.products.weight_gradient(inputs.values, outputs.values, layer.geometry, kernel)
    scaled = sums * outputs.scale.reshape(-1, 1, 1, 1)
    groups = layer.geometry.groups if layer.scales == "channel" else 1
    by_group = scaled.reshape(groups, -1, *weight.shape[1:]) * inputs.scale.reshape(groups, 1, -1, 1, 1)
    return by_group.flatten(0, 1)


def _channels_last(image: Tensor) -> Tensor:
    """N × H × W × C, contiguous; no copy if memory already has that order."""
    return image.permute(0, 2, 3, 1).contiguous()
