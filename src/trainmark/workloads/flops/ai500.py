"""The `ai500` convention: the operator rules of HPC AI500 V3.0, Table 3, for the forward pass."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from trainmark.workloads.flops.attention import fast_path, forward_multiply_adds

aten = torch.ops.aten

Counts = dict[str, int]

ELEMENT_WISE = {
    *(aten.relu, aten.relu_, aten.threshold, aten.hardtanh, aten.hardtanh_, aten.leaky_relu, aten.leaky_relu_),
    *(aten.sigmoid, aten.sigmoid_, aten.tanh, aten.tanh_, aten.gelu, aten.silu, aten.silu_),
    *(aten.hardswish, aten.hardswish_, aten.native_dropout),
    *(aten.add, aten.add_, aten.sub, aten.mul, aten.mul_, aten.div),
}
POOLING = {
    *(aten.max_pool2d_with_indices, aten.avg_pool2d, aten._adaptive_avg_pool2d, aten.adaptive_max_pool2d),
    aten.mean,  # adaptive pooling to 1×1
}
NORMALIZATION = {
    *(aten.native_batch_norm, aten._native_batch_norm_legit, aten.cudnn_batch_norm),
    *(aten._batch_norm_with_update, aten.native_layer_norm, aten.native_group_norm),
}
FULLY_CONNECTED = {aten.mm: (0, 1), aten.addmm: (1, 2), aten.bmm: (0, 1), aten.baddbmm: (1, 2)}


def count(operator: Any, args: tuple[Any, ...], out: Any) -> Counts:
    """FLOPs of one executed forward operator, by kind; 0 for operators that are not in Table 3."""
    kind = operator.overloadpacket
    if kind == aten.convolution:
        return _convolution(args, out)
    if kind in FULLY_CONNECTED:
        left, right = FULLY_CONNECTED[kind]
        # FL_in · FL_out per sample: the source has no factor 2 here.
        return {"fully connected": prod(args[left].shape) * args[right].shape[-1]}
    if kind in POOLING:
        return {"pooling": prod(args[0].shape)}
    if kind in NORMALIZATION:
        return {"normalization": prod(args[0].shape)}
    if kind in ELEMENT_WISE:
        return _element_wise(out[0] if isinstance(out, tuple) else out)
    return _attention(kind, args)


def _element_wise(out: Tensor) -> Counts:
    return {"element-wise": prod(out.shape)} if out.is_floating_point() else {}


def _attention(kind: Any, args: tuple[Any, ...]) -> Counts:
    """Attention is not in Table 3; its products count as fully connected layers."""
    if inside := fast_path(kind, args):
        counts = {
            "fully connected": inside.projections + inside.attention,
            "normalization": inside.normalised,
            "element-wise": inside.element_wise,
        }
    else:
        counts = {"fully connected": forward_multiply_adds(kind, args)}
    return {name: flop for name, flop in counts.items() if flop}


def _convolution(args: tuple[Any, ...], out: Any) -> Counts:
    x, weight, groups = args[0], args[1], args[8]
    batch, channels_out = out.shape[0], out.shape[1]
    channels_in, kernel, pixels = x.shape[1], prod(weight.shape[2:]), prod(out.shape[2:])
    base = 2 * batch * kernel * channels_in * pixels
    if groups > 1 and groups == channels_in:
        return {"depth-wise convolution": base}
    if groups > 1:
        return {"group convolution": base * channels_out // groups}
    return {"convolution": base * channels_out}
