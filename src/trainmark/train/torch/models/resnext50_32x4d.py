"""ResNeXt-50 32×4d (Xie et al. 2017): ResNet-50 whose 3×3 convolutions have 32 groups, of 4 channels at first."""

from functools import partial

from torch import nn

from trainmark.train.torch.models.residual import bottleneck, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 18


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNeXt-50 32×4d: bottlenecks with grouped 3×3 convolutions; 25.03 million parameters for 1000 classes."""
    # 32 groups × 4 channels = 128: twice the 64 of ResNet-50's first stage, and so in every stage.
    return residual_network(partial(bottleneck, groups=32, widening=2), (3, 4, 6, 3), num_classes, channels)
