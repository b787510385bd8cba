"""VGG-16 (Simonyan and Zisserman 2014, configuration D): thirteen 3×3 convolutions, three fully connected layers."""

from torch import nn

from trainmark.train.torch.models.fixed_grid import FixedGrid

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 16
SMALLEST_SIDE = 32  # of an image; five poolings halve it
CHANNELS_OF_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """VGG-16 for images of at least 32 × 32; 138.36 million parameters for 1000 classes."""
    layers: list[nn.Module] = []
    channels_in = channels
    for stage in CHANNELS_OF_STAGES:
        for channels_out in stage:
            layers += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU(inplace=True)]
            channels_in = channels_out
        layers.append(nn.MaxPool2d(2))
    layers += [FixedGrid(7), nn.Flatten()]
    for features_in in (512 * 7 * 7, 4096):
        layers += [nn.Linear(features_in, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    model = nn.Sequential(*layers, nn.Linear(4096, num_classes))
    _initialise(model)
    return model


def _initialise(model: nn.Sequential) -> None:
    """Glorot's initialisation, with which the authors could train all their networks from scratch; biases 0."""
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
