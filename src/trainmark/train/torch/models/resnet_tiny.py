"""A residual network of three blocks for 32 × 32 images, small enough to train in seconds on one core."""

from torch import nn

from trainmark.train.torch.models.residual import basic_block, convolution, initialise

INPUT_SHAPE = (3, 32, 32)
NUM_LAYERS = 5
STRIDED_1X1_INPUT = "width"


def build(num_classes: int = 10, width: int = 16, channels: int = 3) -> nn.Module:
    """A residual network of three blocks for 32 × 32 images; `width` channels at first, four times as many at last."""
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
