"""ResNet-50 in both published forms: v1 (He et al. 2015) and v1.5 (stride in the 3×3)."""

from torch import nn

from trainmark.workloads.models.residual import bottleneck, convolution, initialise

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 18
BLOCKED_LAYOUT = True
BLOCKS_PER_STAGE = (3, 4, 6, 3)


def build_v1(num_classes: int = 1000) -> nn.Module:
    """ResNet-50 v1: a stage's stride lies in its first 1×1 convolution."""
    return _build(num_classes, stride_in_3x3=False)


def build_v1_5(num_classes: int = 1000) -> nn.Module:
    """ResNet-50 v1.5: a stage's stride lies in its first 3×3 convolution."""
    return _build(num_classes, stride_in_3x3=True)


def _build(num_classes: int, *, stride_in_3x3: bool) -> nn.Module:
    layers: list[nn.Module] = [
        convolution(3, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels_in = 64
    for stage, blocks in enumerate(BLOCKS_PER_STAGE):
        channels = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(bottleneck(channels_in, channels, stride, stride_in_3x3=stride_in_3x3))
            channels_in = 4 * channels
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, num_classes))
    initialise(model)
    return model
