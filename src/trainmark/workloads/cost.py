"""The cost of training each model, as a table: plans are estimated without torch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainmark.workloads.extreme_weather import TINY as TINY_WEATHER
from trainmark.workloads.find import find_card


class Cost(NamedTuple):
    """One training pass of one sample (`exact` convention, fp32), and the model's weights."""

    gflop: float
    parameters: int
    activation_bytes: int

    def scaled(self, area: float) -> "Cost":
        """The cost with images of `area` times as many pixels."""
        return self._replace(gflop=self.gflop * area, activation_bytes=round(self.activation_bytes * area))


# Counted by `trainmark flops`, with a model's default settings and input shape; for a detector, its dense part and the
# regions that it samples. tests/conformance/test_models.py verifies them.
COSTS = {
    "alexnet": Cost(4.145, 61_100_840, 3_704_320),
    "densenet121": Cost(16.77, 7_978_856, 130_528_640),
    "faster-rcnn": Cost(1070.1, 41_408_424, 1_787_272_960),
    "resnet-tiny": Cost(0.01853, 78_042, 173_632),
    "resnet101-v1": Cost(45.19, 44_549_160, 122_849_024),
    "resnet101-v1.5": Cost(46.57, 44_549_160, 127_063_808),
    "resnet18": Cost(10.65, 11_689_512, 22_199_040),
    "resnet34": Cost(21.75, 21_797_672, 32_249_088),
    "resnet50-v1": Cost(22.91, 25_557_032, 81_800_960),
    "resnet50-v1.5": Cost(24.30, 25_557_032, 86_015_744),
    "resnext50-32x4d": Cost(25.15, 25_028_904, 112_338_176),
    "vgg16": Cost(92.65, 138_357_544, 73_254_912),
    "vit-small": Cost(27.48, 22_050_664, 70_521_352),
    "wide-resnet101-2": Cost(136.3, 126_886_696, 167_068_928),
    "wide-resnet50-2": Cost(68.15, 68_883_240, 112_338_176),
}

# The one workload with other model settings: on images of 64 × 96.
SMALL_DETECTOR = Cost(0.4267, 942_152, 1_265_984)
SMALL_DETECTOR_SIDES = (64, 96)

# Settings that affect only the first or last layer.
MINOR = ("num_classes", "channels")


def cost_of(model: str, settings: Mapping[str, Any], shape: Sequence[int] | None) -> Cost | None:
    """The cost of a model on images of `shape`; None if its settings are not in the table."""
    if model not in COSTS or shape is None or len(shape) != 3:
        return None
    chosen = _differing(model, settings)
    if not chosen:
        counted, sides = COSTS[model], find_card(model).input_shape[1:]
    elif model == "faster-rcnn" and chosen == _differing(model, TINY_WEATHER.model_settings):
        counted, sides = SMALL_DETECTOR, SMALL_DETECTOR_SIDES
    else:
        return None
    return counted.scaled(math.prod(shape[1:]) / math.prod(sides))


def _differing(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not the model's defaults, except those that hardly affect its cost."""
    defaults = find_card(model).settings
    return {key: value for key, value in settings.items() if key not in MINOR and value != defaults.get(key)}
