"""The `exact` convention: a multiply-add is 2; convolutions and matrix products, forward and backward, as executed."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from trainmark.workloads.flops.attention import backward_multiply_adds, fast_path, forward_multiply_adds

aten = torch.ops.aten

Counts = dict[str, int]


def _convolution_flop(out_shape: torch.Size, in_shape: torch.Size, weight: torch.Size, transposed: bool) -> int:
    # Each output pixel of each sample costs one multiply-add per weight element (a transposed one: each input pixel);
    # the weight of a grouped convolution is already smaller by the number of groups.
    pixels = in_shape if transposed else out_shape
    return 2 * pixels[0] * prod(pixels[2:]) * prod(weight)


def _convolution(args: tuple[Any, ...], out: Any) -> Counts:
    x, weight, transposed = args[0], args[1], args[6]
    return {"convolution": _convolution_flop(out.shape, x.shape, weight.shape, transposed)}


def _convolution_backward(args: tuple[Any, ...], out: Any) -> Counts:
    grad, x, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    flop = _convolution_flop(grad.shape, x.shape, weight.shape, transposed)
    return {
        "convolution, input gradient": flop * wanted[0],
        "convolution, weight gradient": flop * wanted[1],
    }


def _product(left: int, right: int) -> Callable[[tuple[Any, ...], Any], Counts]:
    def count(args: tuple[Any, ...], out: Any) -> Counts:
        return {"matrix product": 2 * prod(args[left].shape) * args[right].shape[-1]}

    return count


RULES: dict[Any, Callable[[tuple[Any, ...], Any], Counts]] = {
    aten.convolution: _convolution,
    aten.convolution_backward: _convolution_backward,
    aten.mm: _product(0, 1),
    aten._int_mm: _product(0, 1),  # an int8 layer counts as in fp32
    aten.bmm: _product(0, 1),
    aten.addmm: _product(1, 2),
    aten.baddbmm: _product(1, 2),
}


def count(operator: Any, args: tuple[Any, ...], out: Any) -> Counts:
    """FLOPs of one executed operator, by kind; empty for kinds that the convention does not count."""
    kind = operator.overloadpacket
    if kind in RULES:
        return RULES[kind](args, out)
    if inside := fast_path(kind, args):
        return {"matrix product": 2 * inside.projections, "attention": 2 * inside.attention}
    counts = {
        "attention": 2 * forward_multiply_adds(kind, args),
        "attention, gradients": 2 * backward_multiply_adds(kind, args),
    }
    return {name: flop for name, flop in counts.items() if flop}
