"""ResNet-50 in both published forms: v1 (He et al. 2015) and v1.5 (stride in the 3×3)."""

from functools import partial

from torch import nn

from trainmark.train.torch.models.residual import bottleneck, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 18
BLOCKED_LAYOUT = True
BLOCKS_PER_STAGE = (3, 4, 6, 3)


def build_v1(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-50 v1: a stage's stride is in its first 1×1 convolution; 25.56 million parameters."""
    return residual_network(partial(bottleneck, stride_in_3x3=False), BLOCKS_PER_STAGE, num_classes, channels)


def build_v1_5(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-50 v1.5: a stage's stride is in its first 3×3 convolution; 25.56 million parameters."""
    return residual_network(partial(bottleneck, stride_in_3x3=True), BLOCKS_PER_STAGE, num_classes, channels)
