"""AlexNet and VGG: plain convolutions, then fully connected layers on a fixed grid."""

import torch.nn.functional as F
from torch import Tensor, nn

# Channels of the convolutions between two poolings.
VGG16_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class FixedGrid(nn.Module):
    """Average-pools to `side` × `side` if the size differs; outputs are dense (not blocked)."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """The pooled activations."""
        if x.is_mkldnn:  # oneDNN pools only by integer factors, and has no dropout
            x = x.to_dense()
        if x.shape[2] == self.side and x.shape[3] == self.side:
            return x
        return F.adaptive_avg_pool2d(x, self.side)


def alexnet(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """AlexNet in its one-tower form (Krizhevsky 2014): five convolutions, three fully connected layers."""
    model = nn.Sequential(
        *_convolution(channels, 64, 11, padding=2, stride=4),
        nn.MaxPool2d(3, 2),
        *_convolution(64, 192, 5, padding=2),
        nn.MaxPool2d(3, 2),
        *_convolution(192, 384, 3, padding=1),
        *_convolution(384, 256, 3, padding=1),
        *_convolution(256, 256, 3, padding=1),
        nn.MaxPool2d(3, 2),
        FixedGrid(6),
        nn.Flatten(),
        *_hidden(256 * 6 * 6, 4096),
        *_hidden(4096, 4096),
        nn.Linear(4096, num_classes),
    )
    _initialise_alexnet(model)
    return model


def _convolution(channels_in: int, channels_out: int, kernel: int, padding: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels_out, kernel, stride, padding), nn.ReLU(inplace=True)]


def _hidden(features_in: int, features_out: int) -> list[nn.Module]:
    return [nn.Dropout(), nn.Linear(features_in, features_out), nn.ReLU(inplace=True)]


def _initialise_alexnet(model: nn.Sequential) -> None:
    """Gaussian weights (σ = 0.01); biases 1 or 0 as in the paper (Krizhevsky et al. 2012, section 5)."""
    weighted = [layer for layer in model if isinstance(layer, nn.Conv2d | nn.Linear)]
    for number, layer in enumerate(weighted, start=1):
        nn.init.normal_(layer.weight, std=0.01)
        assert layer.bias is not None
        # The second, fourth and fifth convolution and the two hidden fully connected layers.
        nn.init.constant_(layer.bias, 1.0 if number in (2, 4, 5, 6, 7) else 0.0)


def vgg16(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Configuration D of Simonyan and Zisserman 2014: thirteen 3×3 convolutions, three fully connected layers."""
    layers: list[nn.Module] = []
    channels_in = channels
    for block in VGG16_BLOCKS:
        for channels_out in block:
            layers += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU(inplace=True)]
            channels_in = channels_out
        layers.append(nn.MaxPool2d(2))
    layers += [FixedGrid(7), nn.Flatten()]
    for features_in in (512 * 7 * 7, 4096):
        layers += [nn.Linear(features_in, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    model = nn.Sequential(*layers, nn.Linear(4096, num_classes))
    _initialise_vgg(model)
    return model


def _initialise_vgg(model: nn.Sequential) -> None:
    """Glorot initialisation, which the authors found sufficient without pre-training; biases 0."""
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
