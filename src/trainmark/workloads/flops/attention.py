"""Multiply-adds of attention, fused or not, forward and backward."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten


class Attention(NamedTuple):
    """The sizes of one attention operator."""

    heads: int  # of all samples
    queries: int
    keys: int
    features: int
    value_features: int

    def forward(self) -> int:
        """Scores, then the weighted sums of the values."""
        return self.heads * self.queries * self.keys * (self.features + self.value_features)

    def backward(self) -> int:
        """Recomputed scores, which fused kernels do not keep; gradients of weights, values, queries and keys."""
        return self.heads * self.queries * self.keys * (3 * self.features + 2 * self.value_features)


Find = Callable[[tuple[Any, ...]], Iterator[Attention]]


def _heads_first(first: int) -> Find:
    """The attention of operators that take (samples, heads, tokens, features); `first`: the position of the queries."""

    def find(args: tuple[Any, ...]) -> Iterator[Attention]:
        queries, keys, values = args[first : first + 3]
        heads = prod(queries.shape[:-2])
        yield Attention(heads, queries.shape[-2], keys.shape[-2], queries.shape[-1], values.shape[-1])

    return find


def _tokens_first(first: int, ends: int) -> Find:
    """The attention of operators that take (samples, tokens, heads, features), or sequences end to end.

    `first`: where the queries stand; `ends`: where the ends of packed sequences stand, None where nothing is packed.
    """

    def find(args: tuple[Any, ...]) -> Iterator[Attention]:
        queries, keys, values = args[first : first + 3]
        heads, features = queries.shape[-2], (queries.shape[-1], values.shape[-1])
        if args[ends] is None:
            yield Attention(queries.shape[0] * heads, queries.shape[1], keys.shape[1], *features)
            return
        for queries_of_one, keys_of_one in zip(_lengths(args[ends]), _lengths(args[ends + 1]), strict=True):
            yield Attention(heads, queries_of_one, keys_of_one, *features)

    return find


def _lengths(ends: Tensor) -> Iterator[int]:
    return (stop - start for start, stop in pairwise(ends.tolist()))


FORWARD: dict[Any, Find] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _heads_first(0),
    aten._scaled_dot_product_flash_attention: _heads_first(0),
    aten._scaled_dot_product_efficient_attention: _heads_first(0),
    aten._scaled_dot_product_cudnn_attention: _heads_first(0),
    aten._scaled_dot_product_fused_attention_overrideable: _heads_first(0),
    aten._flash_attention_forward: _tokens_first(0, ends=3),
    aten._efficient_attention_forward: _tokens_first(0, ends=4),
}

BACKWARD: dict[Any, Find] = {
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _heads_first(1),
    aten._scaled_dot_product_flash_attention_backward: _heads_first(1),
    aten._scaled_dot_product_efficient_attention_backward: _heads_first(1),
    aten._scaled_dot_product_cudnn_attention_backward: _heads_first(1),
    aten._scaled_dot_product_fused_attention_overrideable_backward: _heads_first(1),
    aten._flash_attention_backward: _tokens_first(1, ends=6),
    aten._efficient_attention_backward: _tokens_first(1, ends=6),
}


def forward_multiply_adds(kind: Any, args: tuple[Any, ...]) -> int:
    """Multiply-adds of a fused attention operator; 0 for any other."""
    return sum(found.forward() for found in FORWARD[kind](args)) if kind in FORWARD else 0


def backward_multiply_adds(kind: Any, args: tuple[Any, ...]) -> int:
    """Multiply-adds of a fused attention's gradient; 0 for any other operator."""
    return sum(found.backward() for found in BACKWARD[kind](args)) if kind in BACKWARD else 0


class FastPath(NamedTuple):
    """The work inside an evaluation fast path, which is one operator to the framework."""

    projections: int  # multiply-adds of matrix products
    attention: int  # multiply-adds of attention
    normalised: int = 0  # elements
    element_wise: int = 0  # elements


def fast_path(kind: Any, args: tuple[Any, ...]) -> FastPath | None:
    """The inside of a multi-head attention or a whole encoder layer in evaluation; None for any other operator."""
    if kind == aten._native_multi_head_attention:
        return _multi_head_attention(*args[:3])
    if kind != aten._transformer_encoder_layer_fwd:
        return None
    tokens, first_weight, second_weight = args[0], args[14], args[16]
    inside = _multi_head_attention(tokens, tokens, tokens)
    elements, rows = tokens.numel(), prod(tokens.shape[:2])
    return FastPath(
        inside.projections + rows * (first_weight.numel() + second_weight.numel()),
        inside.attention,
        normalised=2 * elements,
        element_wise=rows * first_weight.shape[0] + 2 * elements,  # the activation, and two additions
    )


def _multi_head_attention(queries: Tensor, keys: Tensor, values: Tensor) -> FastPath:
    samples, num_queries, width = queries.shape
    # Projections of queries, keys, values and output; heads share the width, so their number cancels.
    rows = samples * (2 * num_queries + keys.shape[1] + values.shape[1])
    return FastPath(rows * width**2, Attention(samples, num_queries, keys.shape[1], width, width).forward())
