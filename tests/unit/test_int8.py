"""int8 products equal integer arithmetic, scales are where they can be taken out, rounding is right on average."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trainmark.machine.ceilings import has_exact_int_mm
from trainmark.spec.config import TorchConfig, TrainConfig
from trainmark.train.torch.precision import int8
from trainmark.train.torch.precision.int8 import quantise
from trainmark.train.torch.precision.int8_products import (
    LONGEST_SUM,
    EmulatedProducts,
    IntegerProducts,
    Products,
    multiply,
)

CPU = torch.device("cpu")
SETTINGS = TrainConfig(epochs=1, batch_size=1, optimizer="", learning_rate=0.1, reference_batch_size=1, schedule="")
Array = np.ndarray[Any, Any]
Scales = Literal["tensor", "channel"]

needs_int8 = pytest.mark.skipif(not has_exact_int_mm(CPU), reason="this CPU has no exact int8 product")
KINDS = [
    pytest.param(IntegerProducts(), marks=needs_int8, id="integer"),
    pytest.param(EmulatedProducts(), id="emulated"),
]

# in, out, kernel, stride, padding, dilation, groups, height, width
GEOMETRIES = [
    (3, 5, (3, 3), (1, 1), (1, 1), (1, 1), 1, 6, 7),
    (4, 6, (3, 3), (2, 2), (1, 1), (1, 1), 1, 8, 7),
    (5, 4, (1, 1), (2, 2), (0, 0), (1, 1), 1, 5, 6),
    (2, 3, (3, 2), (1, 3), (2, 0), (2, 1), 1, 9, 8),
    (3, 2, (1, 1), (1, 1), (1, 2), (1, 1), 1, 4, 4),
    (4, 6, (3, 3), (2, 1), (1, 1), (1, 1), 2, 6, 5),
    (4, 4, (3, 3), (1, 1), (1, 1), (1, 1), 4, 5, 5),
    (4, 8, (1, 1), (2, 2), (0, 0), (1, 1), 1, 8, 8),  # oneDNN's issue 6035
    (8, 8, (1, 1), (2, 2), (0, 0), (1, 1), 2, 8, 8),
    (1, 8, (1, 1), (2, 1), (0, 0), (1, 1), 1, 8, 8),
    (3, 1, (3, 3), (1, 1), (1, 1), (1, 1), 1, 6, 7),  # one output channel: a matrix of one row
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def places(case: tuple[Any, ...]) -> Iterator[tuple[slice, slice, int, int]]:
    """Where each value of the kernel meets the padded input, by the definition of a convolution."""
    _, _, kernel, stride, padding, dilation, _, height, width = case
    rows = (height + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    columns = (width + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            up, left = i * dilation[0], j * dilation[1]
            yield (
                slice(up, up + (rows - 1) * stride[0] + 1, stride[0]),
                slice(left, left + (columns - 1) * stride[1] + 1, stride[1]),
                i,
                j,
            )


def reference(x: Array, w: Array, dy: Array | None, case: tuple[Any, ...]) -> tuple[Array, Array, Array]:
    """Outputs (N × C × H × W) and the gradients of input and weight for `dy`, computed in the arrays' own type."""
    channels_in, channels_out, _, _, (py, px), _, groups, height, width = case
    padded = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    per_in, per_out = channels_in // groups, channels_out // groups
    outputs: Array | None = None
    for g in range(groups):
        ins, outs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
        for rows, columns, i, j in places(case):
            seen = padded[:, ins, rows, columns]
            if outputs is None:
                outputs = np.zeros((len(x), channels_out, *seen.shape[2:]), x.dtype)
            outputs[:, outs] += np.einsum("nchw,oc->nohw", seen, w[outs, :, i, j])
    assert outputs is not None
    dy = outputs if dy is None else dy
    dx, dw = np.zeros_like(padded), np.zeros_like(w)
    for g in range(groups):
        ins, outs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
        for rows, columns, i, j in places(case):
            dx[:, ins, rows, columns] += np.einsum("nohw,oc->nchw", dy[:, outs], w[outs, :, i, j])
            dw[outs, :, i, j] += np.einsum("nohw,nchw->oc", dy[:, outs], padded[:, ins, rows, columns])
    return outputs, dx[:, :, py : py + height, px : px + width], dw


def layer_of(case: tuple[Any, ...], products: Products, scales: Scales) -> int8.Layer:
    _, _, _, stride, padding, dilation, groups, _, _ = case
    return int8.Layer(products, int8.Geometry(stride, padding, dilation, groups), scales)


def random_case(case: tuple[Any, ...], samples: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    channels_in, channels_out, kernel, _, _, _, groups, height, width = case
    random = torch.Generator().manual_seed(5)
    # Samples and channels of different sizes, so that a scale in the wrong place shows.
    x = torch.randn(samples, channels_in, height, width, generator=random)
    x *= (10.0 ** torch.arange(samples)).view(-1, 1, 1, 1) * (3.0 ** torch.arange(channels_in)).view(1, -1, 1, 1)
    w = torch.randn(channels_out, channels_in // groups, *kernel, generator=random)
    w *= (2.0 ** torch.arange(channels_out)).view(-1, 1, 1, 1)
    return x, w


def whole_numbers(array: torch.Tensor) -> Array:
    return array.to(torch.int64).numpy()


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("case", GEOMETRIES)
def test_the_three_products_equal_integer_arithmetic(case: tuple[Any, ...], products: Products) -> None:
    channels_in, channels_out, kernel, _, _, _, groups, height, width = case
    if groups > 1 and isinstance(products, IntegerProducts):
        pytest.skip("grouped convolutions are emulated")
    rng = np.random.default_rng(0)
    x = rng.integers(-127, 128, (3, channels_in, height, width))
    w = rng.integers(-127, 128, (channels_out, channels_in // groups, *kernel))
    shape = reference(x, w, None, case)[0].shape
    dy = rng.integers(-127, 128, shape)
    y, dx, dw = reference(x, w, dy, case)
    image, gradient = (torch.from_numpy(a).to(torch.int8).permute(0, 2, 3, 1).contiguous() for a in (x, dy))
    weight = torch.from_numpy(w).to(torch.int8)
    geometry = layer_of(case, products, "tensor").geometry
    outputs = products.outputs(image, weight, geometry)
    assert np.array_equal(whole_numbers(outputs.permute(0, 3, 1, 2)), y)
    to_input = products.input_gradient(gradient, weight, geometry, (height, width))
    assert np.array_equal(whole_numbers(to_input.permute(0, 3, 1, 2)), dx)
    assert np.array_equal(whole_numbers(products.weight_gradient(image, gradient, geometry, kernel)), dw)


def quantised(tensor: torch.Tensor, axes: tuple[int, ...], scales: Scales) -> Array:
    """What is left of a tensor, in float64: a written-out second implementation of rounding to nearest."""
    array = tensor.double().numpy()
    others = tuple(a for a in range(array.ndim) if a not in axes) if scales == "channel" else None
    scale = np.abs(array).max(axis=others, keepdims=True) * (1 + 2.0**-17) / 127
    rounded: Array = np.rint(array / scale) * scale
    return rounded


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("scales", ["tensor", "channel"])
@pytest.mark.parametrize("case", GEOMETRIES)
def test_outputs_are_those_of_the_quantised_operands(case: tuple[Any, ...], scales: Scales, products: Products) -> None:
    if case[6] > 1:
        products = EmulatedProducts()
    x, w = random_case(case)
    y = int8.Int8Product.apply(x, w, layer_of(case, products, scales))
    exact = reference(quantised(x, (0,), scales), quantised(w, (0,), scales), None, case)[0]
    assert np.allclose(y.numpy(), exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
    for sample in range(3):  # each within its own size: no scale of another sample or channel
        for channel in range(case[1]) if scales == "channel" else ():
            size = np.abs(exact[sample, channel]).max()
            assert np.allclose(y[sample, channel].numpy(), exact[sample, channel], rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("scales", ["tensor", "channel"])
@pytest.mark.parametrize("case", GEOMETRIES)
def test_gradients_are_those_of_the_quantised_operands(
    case: tuple[Any, ...], scales: Scales, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case[6] > 1:
        products = EmulatedProducts()
    # Without noise, so that the reference can round as well.
    monkeypatch.setattr(int8, "quantise", lambda tensor, kept, stochastic=False: quantise(tensor, kept))
    x, w = random_case(case)
    inputs, weights = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = int8.Int8Product.apply(inputs, weights, layer_of(case, products, scales))
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(6))
    dy *= (7.0 ** torch.arange(3)).view(-1, 1, 1, 1) * (5.0 ** torch.arange(case[1])).view(1, -1, 1, 1)
    y.backward(dy)
    assert inputs.grad is not None
    assert weights.grad is not None
    by_group = quantised(w.reshape(case[6], -1, *w.shape[1:]), (0, 2), scales).reshape(w.shape)
    dx = reference(x.double().numpy(), by_group, quantised(dy, (0,), scales), case)[1]
    dw = reference(quantised(x, (1,), scales), w.double().numpy(), quantised(dy, (1,), scales), case)[2]
    assert np.allclose(inputs.grad.numpy(), dx, rtol=1e-5, atol=1e-5 * np.abs(dx).max(axis=(1, 2, 3), keepdims=True))
    assert np.allclose(weights.grad.numpy(), dw, rtol=1e-5, atol=1e-5 * np.abs(dw).max(axis=(1, 2, 3), keepdims=True))


@needs_int8
def test_sums_too_long_for_int32_are_right() -> None:
    length = 2 * LONGEST_SUM + 3
    left = torch.full((2, length), 127, dtype=torch.int8)
    left[1] = -127
    right = torch.full((length, 1), 127, dtype=torch.int8)
    expected = length * 127 * 127  # 4.2e9, beyond 2^31
    assert multiply(left, right).flatten().tolist() == pytest.approx([expected, -expected], rel=1e-7)
    assert LONGEST_SUM * 127 * 127 < 2**31


def test_an_int8_product_that_saturates_is_not_used() -> None:
    # oneDNN, kept from using dot-product instructions, saturates sums of two products in 16 bits.
    code = (
        "import torch; from trainmark.machine.ceilings import has_exact_int_mm as has; print(has(torch.device('cpu')))"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


def test_rounding_to_nearest_is_within_half_a_step_and_uses_the_whole_range() -> None:
    tensor = torch.randn(64, 33, generator=torch.Generator().manual_seed(0))
    values, scale = quantise(tensor, (0,))
    assert scale.shape == (64, 1)
    assert values.abs().amax(1).tolist() == [127] * 64
    assert ((values * scale - tensor).abs() <= 0.5001 * scale).all()


def test_rounding_at_random_is_right_on_average_and_never_leaves_the_range() -> None:
    torch.manual_seed(0)
    tensor = torch.tensor([127.0, -127.0, 0.25, -3.7, 1e-3, 64.5]).repeat(200_000, 1)
    values, scale = quantise(tensor, (), stochastic=True)
    assert values.min() == -127
    assert values.max() == 127
    restored = (values * scale).double()
    assert ((restored - tensor).abs() <= 1.0001 * scale).all()
    # A step is 1; the error's deviation is at most ½ / sqrt(200,000) = 0.0011 of it: five of them, and 2^-17 of bias.
    assert (restored.mean(0) - tensor[0]).abs().max() < 0.0056 + 127 * 2.0**-16
    half = values[:, 5].double()
    assert half.std().item() == pytest.approx(0.5, rel=0.01)  # 64 or 65, equally often


def test_equal_seeds_round_alike_and_others_do_not() -> None:
    tensor = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    first = quantise(tensor, (), stochastic=True).values
    torch.manual_seed(1)
    again = quantise(tensor, (), stochastic=True).values
    other = quantise(tensor, (), stochastic=True).values
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("products", KINDS)
def test_zeros_stay_zeros_and_nan_is_not_hidden(products: Products) -> None:
    layer = int8.Layer(products, int8.Geometry(), "tensor")
    weight = torch.ones(2, 3, 1, 1)
    assert int8.Int8Product.apply(torch.zeros(2, 3, 4, 4), weight, layer).abs().max() == 0
    broken = torch.ones(2, 3, 4, 4)
    broken[0, 0, 0, 0] = float("nan")
    assert int8.Int8Product.apply(broken, weight, layer).isnan().all()


def converted(model: nn.Module, scales: Scales = "channel") -> nn.Module:
    return int8.build(CPU, SETTINGS.model_copy(update={"torch": TorchConfig(int8_scales=scales)})).convert(model)


def test_layers_keep_their_padding_modes_biases_and_memory_format() -> None:
    torch.manual_seed(0)
    for arguments in ({"padding": "same"}, {"padding": 1, "padding_mode": "reflect"}, {"padding": 1, "groups": 2}):
        layer = nn.Conv2d(4, 6, 3, **arguments)  # type: ignore[arg-type]
        x = torch.randn(2, 4, 8, 8)
        expected = layer(x)
        converted(layer)
        for format in (torch.contiguous_format, torch.channels_last):
            y = layer(x.to(memory_format=format))
            assert y.is_contiguous(memory_format=format)
            assert (y - expected).abs().max() < 0.03 * expected.abs().max()


def test_linear_layers_take_any_number_of_dimensions() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 5)
    x = torch.randn(2, 3, 16)
    expected = layer(x)
    y = converted(layer)(x)
    assert y.shape == (2, 3, 5)
    assert (y - expected).abs().max() < 0.03 * expected.abs().max()


@pytest.mark.parametrize(("scales", "least"), [("channel", 0.95), ("tensor", 0.95)])
def test_the_gradient_of_a_network_points_where_that_of_fp32_does(scales: Scales, least: float) -> None:
    from trainmark.train.torch.models.resnets import resnet_tiny

    torch.manual_seed(0)
    model = resnet_tiny().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    inputs, targets = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))

    def gradient() -> torch.Tensor:
        model.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    exact = gradient()
    converted(model, scales)
    assert F.cosine_similarity(exact, gradient(), dim=0) > least


def test_first_and_last_layer_are_converted() -> None:
    from trainmark.train.torch.models.resnets import resnet_tiny

    model = converted(resnet_tiny())
    layers = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert len(layers) == 10  # 1 + 3 × 2 convolutions, 2 projections, 1 linear layer
    assert all(isinstance(layer, int8.Int8Conv2d | int8.Int8Linear) for layer in layers)


def test_gradients_of_two_passes_add_up() -> None:
    torch.manual_seed(0)
    layer = converted(nn.Linear(8, 4))
    x = torch.randn(16, 8)
    for _ in range(2):
        torch.manual_seed(1)
        layer(x).square().sum().backward()
    assert layer.weight.grad is not None
    doubled = layer.weight.grad.clone()
    layer.zero_grad()
    torch.manual_seed(1)
    layer(x).square().sum().backward()
    assert torch.allclose(doubled, 2 * layer.weight.grad)
