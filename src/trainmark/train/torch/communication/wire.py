"""Wire formats: how gradients are encoded in messages, with error feedback for lossy ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import COMMUNICATION_PRECISIONS


class Wire(Protocol):
    """A number format of messages. Payloads are bytes, so that every backend can send every format.

    `tolerance`: the largest rounding error of a value, as a fraction of the message's largest value.
    `dtype`: the dtype in which the library can sum; None if sums need more precision.
    `has_error_feedback`: whether the rounding error is added to the next message.
    """

    @property
    def tolerance(self) -> float: ...

    @property
    def dtype(self) -> torch.dtype | None: ...

    @property
    def has_error_feedback(self) -> bool: ...

    def payload_bytes(self, count: int) -> int:
        """The size of a message with `count` values."""
        ...

    def encode(self, values: Tensor) -> Tensor:
        """Returns the message as bytes, which may share the memory of `values`."""
        ...

    def decode(self, payload: Tensor) -> Tensor:
        """Returns the values of a message, in fp32."""
        ...


@dataclass(frozen=True)
class Cast:
    """A format that the library can cast to and sum."""

    dtype: torch.dtype
    tolerance: float
    has_error_feedback: bool = False

    def payload_bytes(self, count: int) -> int:
        """The size of a message with `count` values."""
        return count * self.dtype.itemsize

    def encode(self, values: Tensor) -> Tensor:
        """Returns the cast values as bytes."""
        return values.to(self.dtype).view(torch.uint8)

    def decode(self, payload: Tensor) -> Tensor:
        """Returns the values of a message, in fp32."""
        return payload.view(self.dtype).float()


@dataclass
class Encoder:
    """Encodes the messages of one bucket of gradients, one exchange after another.

    A worker encodes the same messages in the same order in every exchange. The rounding error of the n-th message is
    added to the n-th message of the next exchange (error feedback).
    """

    wire: Wire
    errors: list[Tensor] = field(default_factory=list)
    num_encoded: int = 0

    def start(self) -> None:
        """Starts an exchange."""
        self.num_encoded = 0

    def empty_message(self, like: Tensor) -> Tensor:
        """An uninitialised message with as many values as `like`."""
        count = like.numel()
        return torch.empty(self.wire.payload_bytes(count) if count else 0, dtype=torch.uint8, device=like.device)

    def encode(self, values: Tensor) -> Tensor:
        """Returns the message with `values` (fp32, flat)."""
        if not values.numel():
            return self.empty_message(values)
        if not self.wire.has_error_feedback:
            return self.wire.encode(values)
        if self.num_encoded == len(self.errors):
            self.errors.append(torch.zeros_like(values))
        corrected = values + self.errors[self.num_encoded]
        payload = self.wire.encode(corrected)
        # After an overflow the error is undefined: reset to 0.
        self.errors[self.num_encoded] = corrected.sub_(self.wire.decode(payload)).nan_to_num_(0.0, 0.0, 0.0)
        self.num_encoded += 1
        return payload

    def decode(self, payload: Tensor) -> Tensor:
        """Returns the values of a message."""
        return self.wire.decode(payload) if payload.numel() else torch.empty(0, device=payload.device)


class Encoders:
    """The encoders of all buckets, by index."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._encoders: dict[int, Encoder] = {}

    def encoder(self, bucket: int) -> Encoder:
        """Returns the encoder of a bucket, at the start of an exchange."""
        encoder = self._encoders.setdefault(bucket, Encoder(self.wire))
        encoder.start()
        return encoder

    def state(self) -> dict[str, Any]:
        """The error feedback, per bucket."""
        return {"errors": {bucket: list(encoder.errors) for bucket, encoder in self._encoders.items()}}

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._encoders = {
            bucket: Encoder(self.wire, [error.clone() for error in errors])
            for bucket, errors in state["errors"].items()
        }


def wire_of(settings: TrainConfig) -> Any:
    """The chosen communication precision: a Wire, or PowerSGD, which has its own reduction."""
    build: Callable[[TrainConfig], Any] = COMMUNICATION_PRECISIONS.load(settings.communication_precision)
    return build(settings)


def message_wire_of(settings: TrainConfig) -> Wire:
    """The chosen communication precision, for modes that encode messages themselves."""
    wire: Wire = wire_of(settings)
    assert hasattr(wire, "encode"), "checked by the plan"
    return wire


def fp32(settings: TrainConfig) -> Cast:
    """Single precision: four bytes per value, lossless."""
    return Cast(torch.float32, tolerance=2**-24)


def fp16(settings: TrainConfig) -> Cast:
    """Half precision: two bytes per value, 11 bits of significand, values up to 65504."""
    return Cast(torch.float16, tolerance=2**-11)


def bf16(settings: TrainConfig) -> Cast:
    """Brain floating point: two bytes per value, 8 bits of significand, the range of fp32."""
    return Cast(torch.bfloat16, tolerance=2**-8)


SCALE_BYTES = 4
LARGEST = 127


class Int8:
    """Eight-bit integers: one byte per value, one fp32 scale per message, with error feedback; sums are in fp32."""

    tolerance = 0.5 / LARGEST
    dtype = None
    has_error_feedback = True

    def __init__(self, settings: TrainConfig) -> None:
        pass

    def payload_bytes(self, count: int) -> int:
        """The size of a message with `count` values."""
        return SCALE_BYTES + count

    def encode(self, values: Tensor) -> Tensor:
        """Returns the scale (largest value / 127), followed by each value in units of it."""
        payload = torch.empty(self.payload_bytes(values.numel()), dtype=torch.uint8, device=values.device)
        scale = payload[:SCALE_BYTES].view(torch.float32)
        # At least the smallest normal number, to avoid dividing by 0. Infinity and NaN give a scale that decodes to NaN
        # everywhere: an overflow stays visible.
        scale.copy_((torch.linalg.vector_norm(values, float("inf")) / LARGEST).clamp_min(torch.finfo().tiny))
        payload[SCALE_BYTES:].view(torch.int8).copy_((values / scale).round_().clamp_(-LARGEST, LARGEST))
        return payload

    def decode(self, payload: Tensor) -> Tensor:
        """Returns the values of a message, in fp32."""
        return payload[SCALE_BYTES:].view(torch.int8) * payload[:SCALE_BYTES].view(torch.float32)
