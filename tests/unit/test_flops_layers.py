"""Layers, kept activations and arithmetic intensity are those that arithmetic gives for small models."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import MODELS
from trainmark.workloads.flops.count import count_model


def counted(monkeypatch: pytest.MonkeyPatch, model: Any, *shape: int) -> dict[str, Any]:
    monkeypatch.setattr(ModelCard, "build", lambda card, engine, settings: model(**settings))
    return count_model("resnet-tiny", {}, shape)


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )


# One sample of 3 × 8 × 8, in bytes of fp32.
IMAGE, CONVOLVED, POOLED, CLASSES = 4 * 3 * 64, 4 * 8 * 64, 4 * 8 * 16, 4 * 10
INDICES = 8 * 8 * 16  # of the largest elements, as 64-bit numbers
WEIGHTS = 4 * (3 * 8 * 9 + 8), 4 * (128 * 10 + 10)
CONVOLUTION, LINEAR = 2 * 9 * 3 * 8 * 64, 2 * 128 * 10


def test_layers_have_the_flops_parameters_and_shapes_of_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = counted(monkeypatch, small, 3, 8, 8)["layers"]
    keys = ("layer", "kind", "output_shape", "parameters", "forward", "training")
    assert [tuple(layer[key] for key in keys) for layer in layers] == [
        ("0", "Conv2d", [8, 8, 8], 224, CONVOLUTION, 2 * CONVOLUTION),  # nobody wants the images' gradient
        ("1", "ReLU", [8, 8, 8], 0, 0, 0),
        ("2", "MaxPool2d", [8, 4, 4], 0, 0, 0),
        ("3", "Flatten", [128], 0, 0, 0),
        ("4", "Linear", [10], 1290, LINEAR, 3 * LINEAR),
    ]


def test_what_is_kept_for_the_backward_pass_is_counted_once_and_without_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = counted(monkeypatch, small, 3, 8, 8)
    # The convolution keeps the image, relu its result, which pooling needs too, pooling its indices, and the linear
    # layer what was pooled.
    kept = [IMAGE, CONVOLVED, INDICES, 0, POOLED]
    assert [layer["activation_bytes"] for layer in counts["layers"]] == kept
    assert counts["activation_bytes"] == sum(kept)


def test_arithmetic_intensity_is_flops_per_byte_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, small, 3, 8, 8)
    moved = [
        IMAGE + CONVOLVED + WEIGHTS[0],
        2 * CONVOLVED,  # relu reads and writes in place
        CONVOLVED + POOLED + INDICES,
        0,  # another view of the same memory
        POOLED + CLASSES + WEIGHTS[1],
    ]
    intensities = [layer["arithmetic_intensity"] for layer in counts["layers"]]
    assert intensities == pytest.approx([CONVOLUTION / moved[0], 0, 0, 0, LINEAR / moved[4]])
    assert counts["moved_bytes"] == {
        "activations_per_sample": sum(moved) - sum(WEIGHTS),
        "weights_per_batch": sum(WEIGHTS),
    }
    assert counts["arithmetic_intensity"] == pytest.approx((CONVOLUTION + LINEAR) / sum(moved))


@pytest.mark.parametrize("name", list(MODELS))
def test_layers_add_up_to_their_model(name: str) -> None:
    counts = count_model(name, {})
    for key in ("forward", "training"):
        assert sum(layer[key] for layer in counts["layers"]) == counts["conventions"]["exact"][key]
    kept = sum(layer["activation_bytes"] for layer in counts["layers"])
    assert 0.999 * counts["activation_bytes"] <= kept <= counts["activation_bytes"]


def test_a_layer_that_passes_on_what_it_gets_takes_nobody_elses_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.Identity(), nn.Linear(6, 2))

    layers = counted(monkeypatch, model, 4)["layers"]
    assert [layer["training"] for layer in layers] == [2 * 2 * 24, 0, 3 * 2 * 12]


def test_a_model_without_layers_inside_is_its_only_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = counted(monkeypatch, lambda: nn.Linear(4, 6), 4)["layers"]
    assert [(layer["layer"], layer["training"]) for layer in layers] == [("Linear", 2 * 2 * 24)]


class Branches(nn.Module):
    """Two branches from one stem, the first of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both branches."""
        stem = self.stem(x)
        return self.left(self.left(stem)), self.right(stem)


def test_layers_of_a_model_with_branches_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = counted(monkeypatch, Branches, 4)["layers"]
    assert {layer["layer"]: (layer["forward"], layer["training"]) for layer in layers} == {
        "stem": (32, 2 * 32),
        "left": (2 * 32, 3 * 2 * 32),
        "right": (64, 3 * 64),
    }


class Proposing(nn.Module):
    """The smallest model whose cost depends on the data: a dense part, and a head that runs for each proposal."""

    pooled_shape = (2, 3, 3)

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 2, 1, bias=False)
        self.score = nn.Conv2d(2, 1, 1, bias=False)
        self.head = nn.Linear(18, 5)

    def dense(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features, and a score at each place."""
        features = self.features(images)
        return features, self.score(features)

    def per_proposal(self, pooled: Tensor) -> tuple[Tensor]:
        """Classes of proposals."""
        return (self.head(pooled.flatten(1)),)


def test_a_model_with_proposals_is_counted_without_them_and_for_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, Proposing, 3, 4, 4)
    features, score, head = 2 * 3 * 2 * 16, 2 * 2 * 1 * 16, 2 * 18 * 5
    exact, table_3 = counts["conventions"]["exact"], counts["conventions"]["ai500"]
    assert (exact["forward"], exact["training"]) == (features + score, 2 * features + 3 * score)
    # The dense part wants its gradient.
    assert exact["per_proposal"] == {
        "forward": head,
        "training": 3 * head,
        "operators": {"matrix product": 3 * head},
    }
    assert (table_3["forward"], table_3["training"]) == (features + score, 3 * (features + score))
    assert table_3["per_proposal"] == {
        "forward": head / 2,
        "training": 3 * head / 2,
        "operators": {"fully connected": 3 * head / 2},
    }
    assert [layer["layer"] for layer in counts["layers"]] == ["features", "score"]
    assert counts["parameters"] == 6 + 2 + 95


def test_other_models_have_no_proposals() -> None:
    assert "per_proposal" not in count_model("resnet-tiny", {})["conventions"]["exact"]


def test_counting_needs_no_memory_for_large_images() -> None:
    counts = count_model("resnet18", {}, (3, 20_000, 30_000))
    assert counts["activation_bytes"] > 2**36
    assert torch.get_default_device().type == "cpu"
