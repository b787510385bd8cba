"""DenseNet-121 (Huang et al. 2017): each layer adds 32 channels to all those before it."""

import torch
from torch import Tensor, nn

GROWTH = 32
LAYERS_PER_BLOCK = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """Concatenates x and 32 new channels: 1×1 to 128 channels, then 3×3, each after normalisation and relu."""

    def __init__(self, channels_in: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_normalised(channels_in, 4 * GROWTH, 1), *_normalised(4 * GROWTH, GROWTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        """The concatenated input and output of the layer."""
        return torch.cat((x, self.body(x)), dim=1)


def densenet121(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """DenseNet-121: blocks of 6, 12, 24 and 16 dense layers; 7.98 million parameters for 1000 classes."""
    layers: list[nn.Module] = [
        nn.Sequential(nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    width = 64
    for block, num_layers in enumerate(LAYERS_PER_BLOCK):
        if block:  # a transition halves channels and size
            layers.append(nn.Sequential(*_normalised(width, width // 2, 1), nn.AvgPool2d(2)))
            width //= 2
        for _ in range(num_layers):
            layers.append(DenseLayer(width))
            width += GROWTH
    layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(width, num_classes))
    _initialise(model)
    return model


def _normalised(channels_in: int, channels_out: int, kernel: int) -> list[nn.Module]:
    """Normalisation and relu before a convolution that keeps the size."""
    return [
        nn.BatchNorm2d(channels_in),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False),
    ]


def _initialise(model: nn.Module) -> None:
    """He initialisation of convolutions, as in the paper; the classifier's biases start at 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
