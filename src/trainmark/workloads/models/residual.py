"""Residual blocks: convolution, normalisation and the shortcut that the residual networks share."""

from torch import Tensor, nn


def convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution that keeps the size (but for its stride), followed by batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); the shortcut projects where shape changes."""

    def __init__(self, body: nn.Sequential, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
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


def bottleneck(channels_in: int, channels: int, stride: int, *, stride_in_3x3: bool) -> Residual:
    """1×1, 3×3, 1×1 with four times the channels out. v1 strides in the first 1×1, v1.5 in the 3×3."""
    first, second = (1, stride) if stride_in_3x3 else (stride, 1)
    body = nn.Sequential(
        convolution(channels_in, channels, 1, first),
        nn.ReLU(inplace=True),
        convolution(channels, channels, 3, second),
        nn.ReLU(inplace=True),
        convolution(channels, 4 * channels, 1),
    )
    return Residual(body, channels_in, 4 * channels, stride)


def initialise(model: nn.Module) -> None:
    """He initialisation of convolutions for relu; normalisation starts as the identity."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
