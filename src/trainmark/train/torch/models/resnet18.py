"""ResNet-18 (He et al. 2015): four stages of two basic blocks."""

from torch import nn

from trainmark.train.torch.models.residual import basic_block, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 10
BLOCKED_LAYOUT = True


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-18: four stages of two basic blocks; 11.69 million parameters for 1000 classes."""
    return residual_network(basic_block, (2, 2, 2, 2), num_classes, channels)
