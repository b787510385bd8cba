"""The cost of a model by the shape of images equals a count at that shape, exactly; other models are refused."""

import functools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainmark.spec.errors import ConfigError
from trainmark.spec.model_card import ModelCard
from trainmark.workloads.flops import shapes
from trainmark.workloads.flops.count import count_model
from trainmark.workloads.flops.resolutions import Resolution, Side, find_resolutions
from trainmark.workloads.flops.shapes import CostByShape, cost_by_shape

ODD = [(1, 1), (1, 500), (7, 2), (500, 333), (333, 500), (31, 33), (32, 32), (63, 65), (2047, 1025)]


@functools.cache
def cost(name: str) -> CostByShape:
    return cost_by_shape(name, {})


@pytest.mark.parametrize("name", ["resnet-tiny", "resnet18", "resnet50-v1.5", "densenet121", "alexnet"])
def test_it_is_what_is_counted_at_every_shape(name: str) -> None:
    least = {"alexnet": 63, "densenet121": 29}.get(name, 1)
    drawn = np.random.default_rng(7).integers(least, 3000, (3, 2)).tolist()
    is_small = name in ("resnet-tiny", "resnet18")
    for height, width in [*ODD, *drawn] if is_small else [(500, 333), drawn[0]]:
        counted = count_model(name, {}, (3, height, width))
        for convention in ("exact", "ai500"):
            found = cost(name).training_flop(convention, height, width)
            assert float(found) == counted["conventions"][convention]["training"], (convention, height, width)
        assert float(cost(name).activation_bytes(height, width)) == counted["activation_bytes"], (height, width)


def test_thousands_of_shapes_are_one_expression() -> None:
    heights, widths = np.random.default_rng(1).integers(200, 9000, (2, 20_000))
    found = cost("resnet-tiny").training_flop("exact", heights, widths)
    assert found.shape == (20_000,) and found.dtype == np.float64
    assert found[5] == cost("resnet-tiny").training_flop("exact", heights[5], widths[5])


def test_settings_of_the_model_count() -> None:
    settings = {"num_classes": 29, "width": 24, "channels": 1}
    found, counted = cost_by_shape("resnet-tiny", settings), count_model("resnet-tiny", settings, (1, 77, 131))
    assert float(found.training_flop("exact", 77, 131)) == counted["conventions"]["exact"]["training"]
    assert found.parameters == counted["parameters"]


def test_resolutions_are_the_floors_of_the_strides() -> None:
    # A 7×7 window of stride 2 padded by 3, then 3×3 of stride 2 padded by 1: (n + 1) // 2, (n + 3) // 4.
    assert Side().after(7, 2, 3, 1, False) == Side(1, 2)
    assert Side(1, 2).after(3, 2, 1, 1, False) == Side(3, 4)
    assert Side().after(3, 1, 1, 1, False) == Side()  # same padding
    assert [int(Side(3, 4).of(np.array(n))) for n in (1, 4, 5, 500)] == [1, 1, 2, 125]
    # Pooling by 2 × 2 drops an odd last row, in ceil mode it does not.
    assert Side().after(2, 2, 0, 1, False) == Side(0, 2)
    assert Side().after(2, 2, 0, 1, True) == Side(1, 2)


def test_a_window_may_differ_between_height_and_width() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 4, (5, 3), stride=(2, 1), dilation=(1, 2)), nn.AvgPool2d(2))
    first = Resolution(Side(-3, 2), Side(-4, 1))  # (n − 5) // 2 + 1, n − 4
    assert find_resolutions(model, "m", 3) == (Resolution(), first, Resolution(Side(-3, 4), Side(-4, 2)))


def test_attention_is_refused_because_its_cost_is_not_a_number_per_pixel() -> None:
    with pytest.raises(ConfigError, match="The cost of 'vit-small' by the shape of images is not known: it is not a"):
        cost_by_shape("vit-small", {})


def test_a_detector_is_refused_because_its_cost_depends_on_the_data() -> None:
    with pytest.raises(ConfigError, match="'faster-rcnn' by the shape of images is not known: it depends on the data"):
        cost_by_shape("faster-rcnn", {})


class Scaled(nn.Module):
    """A convolution, and a second one after images were scaled by a factor that is no stride."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)])

    def forward(self, x: Tensor) -> Tensor:
        scaled = nn.functional.interpolate(self.layers[0](x), scale_factor=0.7)
        out: Tensor = self.layers[1](scaled).mean((2, 3))
        return out


class Squared(nn.Module):
    """A convolution over the image laid out as one row: its kernel takes as long, but its padding does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x.flatten(2).unsqueeze(2)).mean((2, 3))
        return out


@pytest.mark.parametrize("module", [Scaled, Squared])
def test_sizes_that_come_from_no_window_are_refused(module: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    card = ModelCard("odd", "…", (3, 32, 32), {"torch": f"{__name__}:{module.__name__}"})
    monkeypatch.setattr(shapes, "find_card", lambda name: card)
    with pytest.raises(ConfigError, match="come from no convolution or pooling"):
        cost_by_shape("odd", {})


def test_images_below_the_smallest_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs images of at least 63 × 63"):
        cost("alexnet").training_flop("exact", [100, 62], [100, 100])
