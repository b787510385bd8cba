"""Backbones: a stem and four residual stages with features at strides 4, 8, 16 and 32."""

from torch import nn

from trainmark.spec.errors import ConfigError
from trainmark.train.torch.models.resnets import basic_block, bottleneck, convolution, initialise

STRIDES = (4, 8, 16, 32)

# depth: blocks per stage, and whether they are bottlenecks (He et al. 2015, table 1; 10 is our lighter variant).
DEPTHS = {
    10: ((1, 1, 1, 1), False),
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
}


def stem(channels: int, width: int) -> nn.Sequential:
    """The stem, of stride 4."""
    layers = nn.Sequential(
        convolution(channels, width, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    )
    initialise(layers)
    return layers


def stages(depth: int, width: int) -> list[nn.Sequential]:
    """The four stages; each but the first halves height and width in its 3×3 convolution (v1.5)."""
    blocks_of_stages, _ = _shape_of(depth)
    made, channels_in = [], width
    for stage, (blocks, channels_out) in enumerate(zip(blocks_of_stages, stage_channels(depth, width), strict=True)):
        layers = nn.Sequential()
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(_block(depth, channels_in, width * 2**stage, stride))
            channels_in = channels_out
        initialise(layers)
        made.append(layers)
    return made


def stage_channels(depth: int, width: int) -> list[int]:
    """Output channels of each of the four stages."""
    blocks, is_bottleneck = _shape_of(depth)
    return [width * 2**stage * (4 if is_bottleneck else 1) for stage in range(len(blocks))]


def _block(depth: int, channels_in: int, channels: int, stride: int) -> nn.Module:
    if DEPTHS[depth][1]:
        return bottleneck(channels_in, channels, stride, stride_in_3x3=True)
    return basic_block(channels_in, channels, stride)


def _shape_of(depth: int) -> tuple[tuple[int, ...], bool]:
    if depth not in DEPTHS:
        raise ConfigError(
            f"There is no backbone of depth {depth}. Choose --set model_settings.depth= one of "
            f"{', '.join(map(str, DEPTHS))}."
        )
    return DEPTHS[depth]
