"""The three products of a convolution on int8 operands: by integer matrix products, or emulated in fp32.

Images are N × H × W × C throughout, weights O × C × H × W; results are exact sums, as int32 or fp32.
"""

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

# 2^31 / 127² = 133,144 products of two int8 fit into an int32 sum. Longer sums are split.
LONGEST_SUM = 131_072

Pair = tuple[int, int]


class Geometry(NamedTuple):
    """How a convolution's kernel moves over its input."""

    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1


class Products(Protocol):
    """The products of a layer in a training step."""

    def outputs(self, x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
        """Sums over input channels and kernel."""
        ...

    def input_gradient(self, dy: Tensor, weight: Tensor, geometry: Geometry, size: Pair) -> Tensor:
        """Sums over output channels and kernel; `size` is the input's."""
        ...

    def weight_gradient(self, x: Tensor, dy: Tensor, geometry: Geometry, kernel: Pair) -> Tensor:
        """Sums over samples and positions."""
        ...


class IntegerProducts:
    """int8 × int8 → int32 matrix products of input patches (im2col); for one group."""

    @staticmethod
    def outputs(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
        """Patches × weights."""
        patches = _patches(x, (weight.shape[2], weight.shape[3]), geometry)
        by_output = weight.permute(0, 2, 3, 1).flatten(1)
        return multiply(patches.flatten(0, 2), by_output.t()).reshape(*patches.shape[:3], -1)

    @staticmethod
    def input_gradient(dy: Tensor, weight: Tensor, geometry: Geometry, size: Pair) -> Tensor:
        """The output gradient, dilated by the stride, convolved with the flipped weights."""
        kernel = (weight.shape[2], weight.shape[3])
        dilated = _dilate(dy, geometry.stride)
        # An input pixel meets the kernel's last row first, dilation × (kernel − 1) rows earlier.
        reach = [d * (k - 1) for d, k in zip(geometry.dilation, kernel, strict=True)]
        before = [r - p for r, p in zip(reach, geometry.padding, strict=True)]
        after = [size[i] + reach[i] - before[i] - dilated.shape[1 + i] for i in (0, 1)]
        padded = F.pad(dilated, (0, 0, before[1], after[1], before[0], after[0]))
        flipped = weight.flip(2, 3).transpose(0, 1)
        return IntegerProducts.outputs(padded, flipped, Geometry(dilation=geometry.dilation))

    @staticmethod
    def weight_gradient(x: Tensor, dy: Tensor, geometry: Geometry, kernel: Pair) -> Tensor:
        """Output gradients × patches."""
        sums = multiply(dy.flatten(0, 2).t(), _patches(x, kernel, geometry).flatten(0, 2))
        return sums.reshape(len(sums), *kernel, -1).permute(0, 3, 1, 2)


class EmulatedProducts:
    """fp32 convolutions of integers: exact while sums stay below 2^24 (1040 products at worst).

    Larger sums are rounded to fp32, by 2^-24, far below the rounding of int8 itself.
    """

    @staticmethod
    def outputs(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
        """The convolution."""
        return F.conv2d(_as_float(x), weight.float(), None, *geometry).permute(0, 2, 3, 1)

    @staticmethod
    def input_gradient(dy: Tensor, weight: Tensor, geometry: Geometry, size: Pair) -> Tensor:
        """The convolution's own gradient."""
        shape = (dy.shape[0], weight.shape[1] * geometry.groups, *size)
        like = torch.empty(shape, device=dy.device, memory_format=torch.channels_last)
        return _gradients(_as_float(dy), like, weight.float(), geometry, (True, False))[0].permute(0, 2, 3, 1)

    @staticmethod
    def weight_gradient(x: Tensor, dy: Tensor, geometry: Geometry, kernel: Pair) -> Tensor:
        """The convolution's own gradient."""
        like = torch.empty((dy.shape[3], x.shape[3] // geometry.groups, *kernel), device=x.device)
        if kernel == (1, 1) and geometry.padding == (0, 0):
            # What the stride leaves out has no part in it, and oneDNN's issue 6035 needs a stride.
            x, geometry = x[:, :: geometry.stride[0], :: geometry.stride[1]], geometry._replace(stride=(1, 1))
        return _gradients(_as_float(dy), _as_float(x), like, geometry, (False, True))[1]


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """The exact product of two int8 matrices: int32, or fp32 if sums are too long for int32."""
    length = left.shape[1]
    if length <= LONGEST_SUM:
        return _int_mm(left, right)
    sums = torch.zeros(len(left), right.shape[1], device=left.device)
    for start in range(0, length, LONGEST_SUM):
        sums += _int_mm(left[:, start : start + LONGEST_SUM], right[start : start + LONGEST_SUM])
    return sums


def _int_mm(left: Tensor, right: Tensor) -> Tensor:
    if left.device.type != "cuda":
        return torch._int_mm(_as_rows(left), _as_rows(right))
    # cuBLAS requires more than 16 rows, other sizes in multiples of 8, and the summed dimension contiguous.
    (rows, length), columns = left.shape, right.shape[1]
    left = F.pad(left, (0, -length % 8, 0, max(17 - rows, 0))).contiguous()
    right = F.pad(right.t(), (0, -length % 8, 0, -columns % 8)).contiguous()
    return torch._int_mm(left, right.t())[:rows, :columns]


def _as_rows(matrix: Tensor) -> Tensor:
    """The matrix; a transposed column as the row that it is: of its strides torch's product takes the wrong one."""
    return matrix.reshape(-1)[None] if len(matrix) == 1 else matrix


def _patches(x: Tensor, kernel: Pair, geometry: Geometry) -> Tensor:
    """The input patch at each output position: N × H × W × (kernel · C)."""
    stride, (rows, columns), dilation, _ = geometry
    if rows or columns:
        x = F.pad(x, (0, 0, columns, columns, rows, rows))
    n, height, width, channels = x.shape
    # Copying eight channels at a time is much faster than one.
    elements, size = (
        (x.reshape(-1).view(torch.int64), channels // 8) if channels % 8 == 0 else (x.reshape(-1), channels)
    )
    positions = [(x.shape[1 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    patches = elements.as_strided(
        (n, *positions, *kernel, size),
        (
            height * width * size,
            stride[0] * width * size,
            stride[1] * size,
            dilation[0] * width * size,
            dilation[1] * size,
            1,
        ),
    )
    return patches.flatten(3).contiguous().view(torch.int8)


def _dilate(dy: Tensor, stride: Pair) -> Tensor:
    """Inserts zeros so that the values are `stride` apart, as in the input."""
    if stride == (1, 1):
        return dy
    n, height, width, channels = dy.shape
    wide = dy.new_zeros(n, (height - 1) * stride[0] + 1, (width - 1) * stride[1] + 1, channels)
    wide[:, :: stride[0], :: stride[1]] = dy
    return wide


def _as_float(image: Tensor) -> Tensor:
    return image.permute(0, 3, 1, 2).float()


def _gradients(
    dy: Tensor, x: Tensor, weight: Tensor, geometry: Geometry, wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    stride, padding, dilation, groups = geometry
    dx, dw, _ = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, dilation, False, (0, 0), groups, (*wanted, False)
    )
    return dx, dw
