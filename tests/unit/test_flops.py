"""FLOP counts agree with facts, with arithmetic by hand, and with the framework's own counter."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from trainmark.spec.registries import MODELS
from trainmark.workloads.flops.count import count_model

# Multiply-add = 2, per image at 224²: forward, training without conv1's input gradient, plain 3×.
RESNET50 = {
    "resnet50-v1": (7.7159e9, 22.9118e9, 23.1478e9),
    "resnet50-v1.5": (8.1784e9, 24.2991e9, 24.5351e9),
}


@pytest.mark.parametrize("model", RESNET50)
def test_resnet50_costs_what_is_published(model: str) -> None:
    count = count_model(model, {})["conventions"]["exact"]
    forward, training, plain = RESNET50[model]
    assert count["forward"] == pytest.approx(forward, rel=1e-5)
    assert count["training"] == pytest.approx(training, rel=1e-5)
    assert count["training_plain_3x"] == pytest.approx(plain, rel=1e-5)


def test_ai500s_published_figure_is_near_v1() -> None:
    # Batch 512 → 11,776 GFLOP, that is 23.0 GFLOP an image.
    assert count_model("resnet50-v1", {})["conventions"]["ai500"]["training"] / 1e9 == pytest.approx(23.0, rel=0.01)


def test_resnet50_has_25_56_million_parameters() -> None:
    assert count_model("resnet50-v1.5", {})["parameters"] == pytest.approx(25.56e6, rel=1e-3)


def test_the_tiny_models_ai500_count_is_table_3_by_hand() -> None:
    # Width 16 on 32²: 3×3 and 1×1 convolutions as (k, in, out, output side).
    convolutions = [
        *((3, 3, 16, 16), (3, 16, 16, 16), (3, 16, 16, 16)),
        *((3, 16, 32, 8), (3, 32, 32, 8), (1, 16, 32, 8)),
        *((3, 32, 64, 4), (3, 64, 64, 4), (1, 32, 64, 4)),
    ]
    normalized = sum(out * side**2 for _, _, out, side in convolutions)
    # Relu after the stem, inside each block and at its end; one addition a block.
    relu = 16 * 256 + 2 * (16 * 256 + 32 * 64 + 64 * 16)
    added = 16 * 256 + 32 * 64 + 64 * 16
    expected = {
        "convolution": 3 * sum(2 * k**2 * i * out * side**2 for k, i, out, side in convolutions),
        "normalization": 3 * normalized,
        "element-wise": 3 * (relu + added),
        "pooling": 3 * 64 * 16,
        "fully connected": 3 * 64 * 10,
    }
    count = count_model("resnet-tiny", {"num_classes": 10, "width": 16})["conventions"]["ai500"]
    assert count["operators"] == expected
    assert count["training"] == sum(expected.values())
    assert count["forward"] == sum(expected.values()) / 3


@pytest.mark.parametrize("name", list(MODELS))
def test_exact_agrees_with_the_frameworks_counter(name: str) -> None:
    counts = count_model(name, {})
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        MODELS.load(name)()(torch.empty(2, *counts["input_shape"])).sum().backward()
    assert counts["conventions"]["exact"]["training"] == counter.get_total_flops() / 2


def grouped(channels_in: int, channels_out: int, groups: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3, padding=1, groups=groups, bias=False), nn.Flatten())


def count_operators(monkeypatch: pytest.MonkeyPatch, *settings: int) -> dict[str, dict[str, float]]:
    monkeypatch.setattr(MODELS, "load", lambda name: grouped)
    names = ("channels_in", "channels_out", "groups")
    counts = count_model("grouped", dict(zip(names, settings, strict=True)), (settings[0], 8, 8))
    return {name: count["operators"] for name, count in counts["conventions"].items()}


def test_a_grouped_convolution_costs_a_groups_share(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = count_operators(monkeypatch, 8, 16, 4)
    forward = 2 * 9 * 8 * 64 * 16 / 4
    assert operators["ai500"] == {"group convolution": 3 * forward}
    assert operators["exact"]["convolution"] == forward
    assert operators["exact"]["convolution, weight gradient"] == forward  # where torch's own counter is wrong


def test_a_depth_wise_convolution_follows_its_own_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = count_operators(monkeypatch, 8, 8, 8)
    assert operators["ai500"] == {"depth-wise convolution": 3 * 2 * 9 * 8 * 64}
