"""int8 on the wire: a quarter of the bytes, and what is lost is sent later."""

import torch
from torch import Tensor

from trainmark.spec.config import TrainConfig

SCALE_BYTES = 4
LARGEST = 127


class Int8:
    """Eight-bit integers: one byte per value, one fp32 scale per message, with error feedback; sums are in fp32."""

    tolerance = 0.5 / LARGEST
    dtype = None
    keeps_error = True

    def __init__(self, settings: TrainConfig) -> None:
        pass

    def payload_bytes(self, count: int) -> int:
        """The size of a message of `count` values."""
        return SCALE_BYTES + count

    def encode(self, values: Tensor) -> Tensor:
        """The scale (largest value / 127), then each value in units of it."""
        payload = torch.empty(self.payload_bytes(values.numel()), dtype=torch.uint8, device=values.device)
        scale = payload[:SCALE_BYTES].view(torch.float32)
        # Not below the smallest normal number, so that nothing is divided by 0. Infinity and NaN make a scale that
        # makes all decoded values NaN: an overflow stays visible.
        scale.copy_((torch.linalg.vector_norm(values, float("inf")) / LARGEST).clamp_min(torch.finfo().tiny))
        payload[SCALE_BYTES:].view(torch.int8).copy_((values / scale).round_().clamp_(-LARGEST, LARGEST))
        return payload

    def decode(self, payload: Tensor) -> Tensor:
        """The values of a message, in fp32."""
        return payload[SCALE_BYTES:].view(torch.int8) * payload[:SCALE_BYTES].view(torch.float32)
