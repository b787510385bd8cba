"""AlexNet in its one-tower form (Krizhevsky 2014): five convolutions, three fully connected layers."""

from torch import nn

from trainmark.train.torch.models.fixed_grid import FixedGrid

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 8
SMALLEST_SIDE = 63  # of an image; below, nothing is left for the last pooling


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """AlexNet, the one-tower form, for images of at least 63 × 63; 61.10 million parameters for 1000 classes."""
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
    _initialise(model)
    return model


def _convolution(channels_in: int, channels_out: int, kernel: int, padding: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels_out, kernel, stride, padding), nn.ReLU(inplace=True)]


def _hidden(features_in: int, features_out: int) -> list[nn.Module]:
    return [nn.Dropout(), nn.Linear(features_in, features_out), nn.ReLU(inplace=True)]


def _initialise(model: nn.Sequential) -> None:
    """Gaussian weights of 0.01; biases are 1 where the paper says so (Krizhevsky et al. 2012, section 5), else 0."""
    weighted = [layer for layer in model if isinstance(layer, nn.Conv2d | nn.Linear)]
    for number, layer in enumerate(weighted, start=1):
        nn.init.normal_(layer.weight, std=0.01)
        assert layer.bias is not None
        # The second, fourth and fifth convolution and the two hidden fully connected layers.
        nn.init.constant_(layer.bias, 1.0 if number in (2, 4, 5, 6, 7) else 0.0)
