"""Convolutions whose weight gradient oneDNN gets wrong: 1×1, strided, channels-last, with few input channels."""

from collections.abc import Mapping
from typing import Any

from trainmark.spec.registries import MODELS

# oneDNN issue 6035: below one block of channels (8 floats with AVX2, 16 with AVX-512) the gradient is written past its
# buffer. Results must not depend on the CPU, so the larger block holds for all of them.
BLOCK_CHANNELS = 16


def narrow_channels(model: str, settings: Mapping[str, Any]) -> int | None:
    """The input channels of the model's narrowest strided 1×1 convolution if they are fewer than a block, else None.

    The model's module states which of its settings that number is; where it states none, there is no such convolution.
    """
    setting = MODELS.constant(model, "STRIDED_1X1_INPUT")
    if setting is None:
        return None
    channels = settings.get(setting, (MODELS.arguments(model) or {}).get(setting))
    return channels if isinstance(channels, int) and channels < BLOCK_CHANNELS else None
