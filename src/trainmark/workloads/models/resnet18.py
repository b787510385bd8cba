"""ResNet-18 (He et al. 2015): four stages of two basic blocks."""

from torch import nn

from trainmark.workloads.models.residual import basic_block, convolution, initialise

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 10
BLOCKED_LAYOUT = True


def build(num_classes: int = 1000) -> nn.Module:
    """ResNet-18: four stages of two basic blocks; 11.69 million parameters for 1000 classes."""
    layers: list[nn.Module] = [
        convolution(3, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels_in = 64
    for channels in (64, 128, 256, 512):
        stride = 1 if channels == 64 else 2
        layers += [basic_block(channels_in, channels, stride), basic_block(channels, channels, 1)]
        channels_in = channels
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, num_classes))
    initialise(model)
    return model
