"""Attention costs what arithmetic says, in every form in which the framework runs it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from trainmark.workloads.flops import ai500, exact
from trainmark.workloads.flops.trace import Recorder

aten = torch.ops.aten

# Samples, heads, queries, keys, features of a query or key, features of a value.
B, H, Q, K, D, V = 2, 3, 5, 7, 4, 6
SCORES = B * H * Q * K * D  # multiply-adds: each query with each key
GATHERED = B * H * Q * K * V  # and as many weighted sums of values


def recorded(recorder: Recorder) -> dict[str, int]:
    counts: dict[str, int] = {}
    for ran in recorder.executed:
        for kind, flop in ran.exact.items():
            counts[kind] = counts.get(kind, 0) + flop
    return counts


def attend(device: str, value_features: int) -> tuple[dict[str, int], dict[str, int]]:
    """What forward and backward of the framework's attention count on a device."""
    queries = torch.zeros(B, H, Q, D, device=device, requires_grad=True)
    keys = torch.zeros(B, H, K, D, device=device, requires_grad=True)
    values = torch.zeros(B, H, K, value_features, device=device, requires_grad=True)
    with Recorder() as forward:
        out = F.scaled_dot_product_attention(queries, keys, values)
    with Recorder() as backward:
        out.sum().backward()
    return recorded(forward), recorded(backward)


def test_attention_on_a_cpu_is_counted_though_the_frameworks_counter_misses_it() -> None:
    forward, backward = attend("cpu", D)
    assert forward == {"attention": 2 * (SCORES + SCORES)}
    # Scores once more, then the gradients of weights, values, queries and keys: five products of one size.
    assert backward == {"attention, gradients": 2 * 5 * SCORES}


def test_attention_on_shapes_is_counted_as_its_products() -> None:
    forward, backward = attend("meta", V)
    assert forward == {"matrix product": 2 * (SCORES + GATHERED)}
    # It keeps the weights, so nothing is computed again: two products for each of the forward pass's.
    assert backward == {"matrix product": 2 * (2 * SCORES + 2 * GATHERED)}


def heads_first() -> tuple[Tensor, ...]:
    return tuple(torch.empty(B, H, n, d, device="meta") for n, d in ((Q, D), (K, D), (K, V)))


def tokens_first() -> tuple[Tensor, ...]:
    return tuple(torch.empty(B, n, H, d, device="meta") for n, d in ((Q, D), (K, D), (K, V)))


GRAD = torch.empty(0, device="meta")
OUT = (GRAD, GRAD)  # output and log-sum-exp, whose shapes no rule looks at
FORWARD: dict[str, tuple[Any, ...]] = {
    "_scaled_dot_product_flash_attention_for_cpu": heads_first(),
    "_scaled_dot_product_flash_attention": heads_first(),
    "_scaled_dot_product_efficient_attention": (*heads_first(), None, True),
    "_scaled_dot_product_cudnn_attention": (*heads_first(), None, True),
    "_scaled_dot_product_fused_attention_overrideable": heads_first(),
    "_flash_attention_forward": (*tokens_first(), None, None, Q, K),
    "_efficient_attention_forward": (*tokens_first(), None, None, None, Q, K),
}
BACKWARD: dict[str, tuple[Any, ...]] = {
    "_scaled_dot_product_flash_attention_for_cpu_backward": (GRAD, *heads_first(), *OUT),
    "_scaled_dot_product_flash_attention_backward": (GRAD, *heads_first(), *OUT),
    "_scaled_dot_product_efficient_attention_backward": (GRAD, *heads_first(), None, *OUT),
    "_scaled_dot_product_cudnn_attention_backward": (GRAD, *heads_first(), *OUT),
    "_scaled_dot_product_fused_attention_overrideable_backward": (GRAD, *heads_first(), None, *OUT),
    "_flash_attention_backward": (GRAD, *tokens_first(), *OUT, None, None, Q, K),
    "_efficient_attention_backward": (GRAD, *tokens_first(), None, GRAD, None, None, Q, K),
}


@pytest.mark.parametrize("name", FORWARD)
def test_every_fused_attention_costs_scores_and_sums(name: str) -> None:
    operator = getattr(aten, name).default
    assert exact.count(operator, FORWARD[name], None) == {"attention": 2 * (SCORES + GATHERED)}
    # Table 3 has no row for attention; its products have no factor 2, as those of fully connected layers.
    assert ai500.count(operator, FORWARD[name], None) == {"fully connected": SCORES + GATHERED}


@pytest.mark.parametrize("name", BACKWARD)
def test_every_fused_attentions_gradient_computes_the_scores_again(name: str) -> None:
    counted = exact.count(getattr(aten, name).default, BACKWARD[name], None)
    assert counted == {"attention, gradients": 2 * (3 * SCORES + 2 * GATHERED)}


def test_sequences_end_to_end_are_counted_each_by_its_own_length() -> None:
    # Two sequences, of 5 and 2 tokens, in 7 rows: 25 and 4 pairs of a query and a key.
    rows, ends = torch.empty(7, H, D, device="meta"), torch.tensor([0, 5, 7])
    counted = exact.count(aten._flash_attention_forward.default, (rows, rows, rows, ends, ends, 5, 5), None)
    assert counted == {"attention": 2 * H * (25 + 4) * (D + D)}


def test_the_fast_path_of_an_encoder_layer_costs_what_its_layers_cost() -> None:
    samples, tokens, width, hidden = 2, 5, 8, 16
    layer = nn.TransformerEncoderLayer(width, 2, hidden, batch_first=True).eval()
    inputs = torch.zeros(samples, tokens, width)
    with torch.no_grad(), Recorder() as recorder:
        layer(inputs)
    # Queries, keys, values and output are width × width; then width × hidden and back.
    rows = samples * tokens
    products = rows * (4 * width**2 + 2 * width * hidden)
    attention = samples * tokens**2 * (width + width)
    assert len(recorder.executed) == 1  # one operator, in which the framework's counter sees nothing
    assert recorded(recorder) == {"matrix product": 2 * products, "attention": 2 * attention}
    assert recorder.executed[0].ai500 == {
        "fully connected": products + attention,
        "normalization": 2 * rows * width,
        "element-wise": rows * hidden + 2 * rows * width,
    }


def test_the_fast_path_agrees_with_the_frameworks_counter_on_the_slow_one() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    inputs = torch.zeros(2, 5, 8)
    with Recorder() as recorder, torch.no_grad():
        layer.eval()(inputs)
    # In training on shapes attention is made of products, which the framework's counter knows.
    with FlopCounterMode(display=False) as counter:
        layer.to("meta").train()(inputs.to("meta"))
    assert sum(recorded(recorder).values()) == counter.get_total_flops()


def test_the_fast_path_of_attention_alone_costs_its_projections_and_itself() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    inputs = torch.zeros(2, 5, 8)
    with torch.no_grad(), Recorder() as recorder:
        attention(inputs, inputs, inputs)
    assert recorded(recorder) == {"matrix product": 2 * 10 * 4 * 64, "attention": 2 * 2 * 25 * 16}


KNOWN = [name for name in (*FORWARD, *BACKWARD) if name.startswith("_scaled") and getattr(aten, name) in flop_registry]


@pytest.mark.parametrize("name", KNOWN)
def test_attention_on_gpus_agrees_with_the_frameworks_formula(name: str) -> None:
    args = (FORWARD | BACKWARD)[name]
    if name in BACKWARD:  # the formula looks at the gradient's shape
        args = (torch.empty(B, H, Q, V, device="meta"), *args[1:])
    operator = getattr(aten, name)
    assert sum(exact.count(operator.default, args, None).values()) == flop_registry[operator](*args, out_val=None)
