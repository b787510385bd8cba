"""Residual networks: their blocks, and the one builder that the whole family shares."""

from collections.abc import Callable

from torch import Tensor, nn


def convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size (but for its stride), followed by batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); the shortcut projects where shape changes."""

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
    """He initialisation of convolutions for relu; normalisation starts as the identity."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
