"""The cost of training each model, as a table: plans are estimated without torch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainmark.workloads.extreme_weather import TINY as TINY_WEATHER
from trainmark.workloads.find import find_card


class Live(NamedTuple):
    """Bytes of one sample at the peak of a training pass, by what happens to activations, in fp32 and with half of it.

    Activations that are kept, and their gradients in flight; weights and their gradients are not included.
    """

    kept: int
    recomputed: int
    offloaded: int
    half_kept: int
    half_recomputed: int
    half_offloaded: int


class Cost(NamedTuple):
    """One training pass of one sample (`exact` convention, fp32), the model's weights, and live memory."""

    gflop: float
    parameters: int
    activation_bytes: int
    live: Live

    def scaled(self, area: float) -> "Cost":
        """The cost with images of `area` times as many pixels."""
        live = Live(*(round(each * area) for each in self.live))
        return self._replace(gflop=self.gflop * area, activation_bytes=round(self.activation_bytes * area), live=live)


# Counted by `trainmark flops`, with a model's default settings and input shape; for a detector, its dense part and the
# regions that it samples. Live memory is that of workloads/flops/liveness.py, of a detector's dense part.
# tests/conformance/test_models.py verifies them.
COSTS = {
    "alexnet": Cost(
        4.145, 61_100_840, 3_704_320, Live(3_845_440, 3_845_440, 2_933_312, 2_778_784, 2_778_784, 1_847_072)
    ),
    "densenet121": Cost(
        16.77, 7_978_856, 130_528_640, Live(130_766_656, 48_225_262, 12_250_944, 66_788_256, 25_216_396, 6_426_528)
    ),
    "faster-rcnn": Cost(
        1070.1,
        41_408_424,
        1_787_272_960,
        Live(2_060_099_136, 909_942_336, 442_801_728, 1_101_049_632, 483_282_720, 249_712_416),
    ),
    "resnet-tiny": Cost(0.01853, 78_042, 173_632, Live(180_304, 127_056, 77_904, 102_440, 69_672, 45_096)),
    "resnet101-v1": Cost(
        45.19, 44_549_160, 122_849_024, Live(123_440_960, 43_962_176, 11_046_720, 63_125_408, 23_084_960, 5_824_416)
    ),
    "resnet101-v1.5": Cost(
        46.57, 44_549_160, 127_063_808, Live(127_655_744, 43_962_176, 11_849_536, 65_232_800, 23_084_960, 6_225_824)
    ),
    "resnet18": Cost(
        10.65, 11_689_512, 22_199_040, Live(22_339_392, 11_849_536, 10_243_904, 12_551_040, 7_028_640, 5_824_416)
    ),
    "resnet34": Cost(
        21.75, 21_797_672, 32_249_088, Live(32_374_592, 12_652_352, 10_243_904, 17_568_640, 7_430_048, 5_824_416)
    ),
    "resnet50-v1": Cost(
        22.91, 25_557_032, 81_800_960, Live(82_497_344, 30_314_304, 11_046_720, 42_653_600, 16_261_024, 5_824_416)
    ),
    "resnet50-v1.5": Cost(
        24.30, 25_557_032, 86_015_744, Live(86_712_128, 30_171_712, 11_849_536, 44_760_992, 16_188_560, 6_225_824)
    ),
    "resnext50-32x4d": Cost(
        25.15, 25_028_904, 112_338_176, Live(113_004_352, 33_525_568, 13_455_168, 57_907_104, 17_866_656, 7_028_640)
    ),
    "vgg16": Cost(
        92.65, 138_357_544, 73_254_912, Live(73_666_368, 73_666_368, 39_145_280, 43_305_888, 43_305_888, 21_479_328)
    ),
    "vit-small": Cost(
        27.48, 22_050_664, 70_521_352, Live(60_315_296, 10_300_936, 5_152_144, 34_740_736, 7_724_904, 3_030_000)
    ),
    "wide-resnet101-2": Cost(
        136.3, 126_886_696, 167_068_928, Live(167_595_840, 44_764_992, 13_455_168, 85_202_848, 23_486_368, 7_028_640)
    ),
    "wide-resnet50-2": Cost(
        68.15, 68_883_240, 112_338_176, Live(113_004_352, 33_525_568, 13_455_168, 57_907_104, 17_866_656, 7_028_640)
    ),
}

# The one workload with other model settings: on images of 64 × 96.
SMALL_DETECTOR = Cost(0.4267, 942_152, 1_265_984, Live(1_783_296, 1_246_024, 1_208_320, 1_309_952, 960_512, 800_768))
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
