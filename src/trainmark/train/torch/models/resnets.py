"""Residual networks: blocks, the shared builder, and the variants."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

# Blocks per stage.
BLOCKS_50 = (3, 4, 6, 3)  # of ResNet-34, too
BLOCKS_101 = (3, 4, 23, 3)


def convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution with same padding, followed by batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); the shortcut is a projection if the shape changes."""

    def __init__(self, body: nn.Sequential, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
        self.channels_out = channels_out
        same_shape = stride == 1 and channels_in == channels_out
        self.shortcut = nn.Identity() if same_shape else convolution(channels_in, channels_out, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


def basic_block(channels_in: int, channels: int, stride: int) -> Residual:
    """Two 3×3 convolutions."""
    body = nn.Sequential(
        convolution(channels_in, channels, 3, stride),
        nn.ReLU(inplace=True),
        convolution(channels, channels, 3),
    )
    return Residual(body, channels_in, channels, stride)


def bottleneck(
    channels_in: int, channels: int, stride: int, *, stride_in_3x3: bool = True, groups: int = 1, widening: int = 1
) -> Residual:
    """1×1, 3×3, 1×1 with four times the channels out. v1 strides in the first 1×1, v1.5 in the 3×3."""
    first, second = (1, stride) if stride_in_3x3 else (stride, 1)
    inner = widening * channels
    body = nn.Sequential(
        convolution(channels_in, inner, 1, first),
        nn.ReLU(inplace=True),
        convolution(inner, inner, 3, second, groups),
        nn.ReLU(inplace=True),
        convolution(inner, 4 * channels, 1),
    )
    return Residual(body, channels_in, 4 * channels, stride)


def residual_network(
    block: Callable[[int, int, int], Residual], blocks_per_stage: tuple[int, ...], num_classes: int, channels: int
) -> nn.Sequential:
    """A stem of stride 4, stages of 64, 128, … channels that halve the size from the second on, a linear classifier."""
    layers: list[nn.Module] = [
        convolution(channels, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels_in = 64
    for stage, blocks in enumerate(blocks_per_stage):
        for place in range(blocks):
            layer = block(channels_in, 64 * 2**stage, 2 if stage > 0 and place == 0 else 1)
            layers.append(layer)
            channels_in = layer.channels_out
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, num_classes))
    initialise(model)
    return model


def initialise(model: nn.Module) -> None:
    """He initialisation of convolutions for relu; batch normalisation starts as the identity."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def resnet_tiny(num_classes: int = 10, width: int = 16, channels: int = 3) -> nn.Module:
    """Three basic blocks for 32 × 32 images, small enough to train in seconds on one core."""
    model = nn.Sequential(
        convolution(channels, width, 3, stride=2),
        nn.ReLU(inplace=True),
        basic_block(width, width, 1),
        basic_block(width, 2 * width, 2),
        basic_block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, num_classes),
    )
    initialise(model)
    return model


def resnet18(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Eight basic blocks (He et al. 2015)."""
    return residual_network(basic_block, (2, 2, 2, 2), num_classes, channels)


def resnet34(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Sixteen basic blocks (He et al. 2015)."""
    return residual_network(basic_block, BLOCKS_50, num_classes, channels)


def resnet50_v1(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Sixteen bottlenecks, as published (He et al. 2015)."""
    return residual_network(partial(bottleneck, stride_in_3x3=False), BLOCKS_50, num_classes, channels)


def resnet50_v1_5(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Sixteen bottlenecks, strided in the 3×3."""
    return residual_network(bottleneck, BLOCKS_50, num_classes, channels)


def resnet101_v1(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Thirty-three bottlenecks, as published (He et al. 2015)."""
    return residual_network(partial(bottleneck, stride_in_3x3=False), BLOCKS_101, num_classes, channels)


def resnet101_v1_5(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Thirty-three bottlenecks, strided in the 3×3."""
    return residual_network(bottleneck, BLOCKS_101, num_classes, channels)


def resnext50_32x4d(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-50 whose 3×3 convolutions have 32 groups, of 4 channels at first (Xie et al. 2017)."""
    # 32 groups × 4 channels = 128: twice the 64 of ResNet-50's first stage, and so in every stage.
    return residual_network(partial(bottleneck, groups=32, widening=2), BLOCKS_50, num_classes, channels)


def wide_resnet50_2(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-50 with twice the channels inside its bottlenecks (Zagoruyko and Komodakis 2016)."""
    return residual_network(partial(bottleneck, widening=2), BLOCKS_50, num_classes, channels)


def wide_resnet101_2(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-101 with twice the channels inside its bottlenecks (Zagoruyko and Komodakis 2016)."""
    return residual_network(partial(bottleneck, widening=2), BLOCKS_101, num_classes, channels)
