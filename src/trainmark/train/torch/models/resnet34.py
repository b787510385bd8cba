"""ResNet-34 (He et al. 2015): sixteen basic blocks."""

from torch import nn

from trainmark.train.torch.models.residual import basic_block, residual_network

INPUT_SHAPE = (3, 224, 224)
NUM_LAYERS = 18


def build(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-34: four stages of 3, 4, 6 and 3 basic blocks; 21.80 million parameters for 1000 classes."""
    return residual_network(basic_block, (3, 4, 6, 3), num_classes, channels)
