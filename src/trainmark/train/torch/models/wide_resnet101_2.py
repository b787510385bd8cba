"""Wide-ResNet-101-2 (Zagoruyko and Komodakis 2016): ResNet-101 with twice the channels inside its bottlenecks."""

from functools import partial

from torch import nn

from trainmark.train.torch.models.residual import bottleneck, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 35


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Wide-ResNet-101-2: bottlenecks twice as wide inside; 126.89 million parameters for 1000 classes."""
    return residual_network(partial(bottleneck, widening=2), (3, 4, 23, 3), num_classes, channels)
