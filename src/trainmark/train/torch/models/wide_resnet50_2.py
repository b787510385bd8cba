"""Wide-ResNet-50-2 (Zagoruyko and Komodakis 2016): ResNet-50 with twice the channels inside its bottlenecks."""

from functools import partial

from torch import nn

from trainmark.train.torch.models.residual import bottleneck, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 18


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """Wide-ResNet-50-2: bottlenecks twice as wide inside; 68.88 million parameters for 1000 classes."""
    return residual_network(partial(bottleneck, widening=2), (3, 4, 6, 3), num_classes, channels)
