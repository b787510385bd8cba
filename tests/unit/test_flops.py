"""FLOP counts agree with facts, with arithmetic by hand, and with the framework's own counter."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tests.conftest import ROOT
from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import MODELS
from trainmark.spec.units import show_bytes, with_prefix
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.count import count_model

# Multiply-add = 2, per image at 224²: forward, training without conv1's input gradient, plain 3×.
RESNET50 = {
    "resnet50-v1": (7.7159e9, 22.9118e9, 23.1478e9),
    "resnet50-v1.5": (8.1784e9, 24.2991e9, 24.5351e9),
}


@functools.cache
def counted(name: str) -> dict[str, Any]:
    return count_model(name, {})


@pytest.mark.parametrize("model", RESNET50)
def test_resnet50_costs_what_is_published(model: str) -> None:
    count = counted(model)["conventions"]["exact"]
    forward, training, plain = RESNET50[model]
    assert count["forward"] == pytest.approx(forward, rel=1e-5)
    assert count["training"] == pytest.approx(training, rel=1e-5)
    assert count["training_plain_3x"] == pytest.approx(plain, rel=1e-5)


def test_ai500s_published_figure_is_near_v1() -> None:
    # Batch 512 → 11,776 GFLOP, that is 23.0 GFLOP an image.
    assert counted("resnet50-v1")["conventions"]["ai500"]["training"] / 1e9 == pytest.approx(23.0, rel=0.01)


def test_resnet50_has_25_56_million_parameters() -> None:
    assert counted("resnet50-v1.5")["parameters"] == pytest.approx(25.56e6, rel=1e-3)


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


# AlexNet at 224²: convolutions as (k, in, out, output side), fully connected layers as (in, out).
ALEXNET_CONVOLUTIONS = ((11, 3, 64, 55), (5, 64, 192, 27), (3, 192, 384, 13), (3, 384, 256, 13), (3, 256, 256, 13))
ALEXNET_FULL = ((256 * 36, 4096), (4096, 4096), (4096, 1000))


def test_alexnets_ai500_count_is_table_3_by_hand() -> None:
    convolved = [out * side**2 for _, _, out, side in ALEXNET_CONVOLUTIONS]
    expected = {
        "convolution": sum(2 * k**2 * i * out * side**2 for k, i, out, side in ALEXNET_CONVOLUTIONS),
        "fully connected": sum(features_in * features_out for features_in, features_out in ALEXNET_FULL),
        # Relu after all layers but the last; dropout before the first two fully connected ones.
        "element-wise": sum(convolved) + 2 * 4096 + (256 * 36 + 4096),
        # Pooling after the first, second and fifth convolution: 55 → 27, 27 → 13, 13 → 6.
        "pooling": convolved[0] + convolved[1] + convolved[4],
    }
    count = counted("alexnet")["conventions"]["ai500"]
    assert count["operators_forward"] == expected
    assert count["operators"] == {kind: 3 * flop for kind, flop in expected.items()}
    assert (count["forward"], count["training"]) == (sum(expected.values()), 3 * sum(expected.values()))


def test_alexnets_exact_count_is_two_for_each_multiply_add_by_hand() -> None:
    convolutions = [2 * k**2 * i * out * side**2 for k, i, out, side in ALEXNET_CONVOLUTIONS]
    full = sum(2 * features_in * features_out for features_in, features_out in ALEXNET_FULL)
    count = counted("alexnet")["conventions"]["exact"]
    assert count["forward"] == sum(convolutions) + full
    assert count["operators"] == {
        "convolution": sum(convolutions),
        "convolution, weight gradient": sum(convolutions),
        "convolution, input gradient": sum(convolutions[1:]),
        "matrix product": 3 * full,
    }


def framework_counts(run: Callable[[Tensor], Any], inputs: Tensor) -> tuple[float, float]:
    """Forward and training FLOPs of one sample of two, by torch's counter."""
    with FlopCounterMode(display=False) as counter:
        outputs = run(inputs)
        forward = counter.get_total_flops()
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(part.sum() for part in parts).backward()
    return forward / 2, counter.get_total_flops() / 2


@pytest.mark.parametrize("name", [name for name in MODELS if "101" not in name])  # more of the same blocks
def test_exact_agrees_with_the_frameworks_counter(name: str) -> None:
    counts = counted(name)
    with torch.device("meta"):
        model = find_card(name).build("torch", {})
        forward, training = framework_counts(getattr(model, "dense", model), torch.empty(2, *counts["input_shape"]))
    assert counts["conventions"]["exact"]["forward"] == forward
    # The framework's counter ignores groups in the weight gradient; see the next tests.
    if all(module.groups == 1 for module in model.modules() if isinstance(module, nn.Conv2d)):
        assert counts["conventions"]["exact"]["training"] == training


@pytest.mark.parametrize("name", [name for name in MODELS if find_card(name).task == "detection"])
def test_the_cost_of_a_proposal_agrees_with_the_frameworks_counter(name: str) -> None:
    with torch.device("meta"):
        model = find_card(name).build("torch", {})
        forward, training = framework_counts(
            model.per_proposal, torch.empty(2, *model.pooled_shape, requires_grad=True)
        )
    each = counted(name)["conventions"]["exact"]["per_proposal"]
    assert (each["forward"], each["training"]) == (forward, training)
    assert sum(each["operators"].values()) == training


def test_each_gradient_of_a_grouped_network_costs_what_its_forward_pass_does() -> None:
    operators = counted("resnext50-32x4d")["conventions"]["exact"]["operators"]
    first = 2 * 7**2 * 3 * 64 * 112**2  # the first convolution has no input gradient
    assert operators["convolution, weight gradient"] == operators["convolution"]
    assert operators["convolution, input gradient"] == operators["convolution"] - first


def grouped(channels_in: int, channels_out: int, groups: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3, padding=1, groups=groups, bias=False), nn.Flatten())


def count_operators(monkeypatch: pytest.MonkeyPatch, *settings: int) -> dict[str, dict[str, float]]:
    monkeypatch.setattr(ModelCard, "build", lambda card, engine, settings: grouped(**settings))
    names = ("channels_in", "channels_out", "groups")
    counts = count_model("resnet18", dict(zip(names, settings, strict=True)), (settings[0], 8, 8))
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
    # Each output channel sees one input channel, so exact agrees where there are as many out as in.
    assert operators["exact"]["convolution"] == 2 * 9 * 8 * 64
    assert operators["exact"]["convolution, weight gradient"] == 2 * 9 * 8 * 64


TABLE = (ROOT / "docs" / "flops.md").read_text().split("## The classifiers")[1]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0])
def test_the_documented_figures_are_those_that_are_counted(cells: list[str]) -> None:
    counts = counted(cells[0].strip("| `"))
    exact, table_3 = counts["conventions"]["exact"], counts["conventions"]["ai500"]
    flop = [with_prefix(count, "FLOP") for count in (exact["forward"], exact["training"], table_3["training"])]
    assert cells[1:6] == [f"{counts['parameters']:,}", *flop, show_bytes(counts["activation_bytes"])]
    assert float(cells[6].strip("| ")) == pytest.approx(counts["arithmetic_intensity"], rel=5e-3)
