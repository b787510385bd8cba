"""Wire formats: how gradients are written for the wire, and how what rounding lost is made good later."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import COMMUNICATION_PRECISIONS


class Wire(Protocol):
    """A number format of messages. Payloads are bytes, so that every backend can move every format.

    `tolerance`: the most that one writing changes a value by, as a share of the message's largest value.
    `dtype`: the format as the library adds it up; None where sums must not be taken in it.
    `keeps_error`: whether what a writing loses is added to the next one.
    """

    @property
    def tolerance(self) -> float: ...

    @property
    def dtype(self) -> torch.dtype | None: ...

    @property
    def keeps_error(self) -> bool: ...

    def payload_bytes(self, count: int) -> int:
        """The size of a message of `count` values."""
        ...

    def encode(self, values: Tensor) -> Tensor:
        """The message: bytes, which may share the memory of `values`."""
        ...

    def decode(self, payload: Tensor) -> Tensor:
        """The values of a message, in fp32."""
        ...


@dataclass(frozen=True)
class Cast:
    """A format that the library can cast to and add up."""

    dtype: torch.dtype
    tolerance: float
    keeps_error: bool = False

    def payload_bytes(self, count: int) -> int:
        """The size of a message of `count` values."""
        return count * self.dtype.itemsize

    def encode(self, values: Tensor) -> Tensor:
        """The cast values as bytes."""
        return values.to(self.dtype).view(torch.uint8)

    def decode(self, payload: Tensor) -> Tensor:
        """The values of a message, in fp32."""
        return payload.view(self.dtype).float()


@dataclass
class Writer:
    """Writes the messages of one bucket of gradients, one exchange after another.

    A worker writes the same messages in the same order in every exchange. What the writing of the n-th of them loses
    is kept and added to the n-th of the next exchange (error feedback), so that nothing is lost in the long run.
    """

    wire: Wire
    errors: list[Tensor] = field(default_factory=list)
    written: int = 0

    def start(self) -> None:
        """The next message is the first of an exchange."""
        self.written = 0

    def blank(self, like: Tensor) -> Tensor:
        """Room for a message that has as many values as `like`."""
        count = like.numel()
        return torch.empty(self.wire.payload_bytes(count) if count else 0, dtype=torch.uint8, device=like.device)

    def encode(self, values: Tensor) -> Tensor:
        """The message that says `values` (fp32, flat)."""
        if not values.numel():
            return self.blank(values)
        if not self.wire.keeps_error:
            return self.wire.encode(values)
        if self.written == len(self.errors):
            self.errors.append(torch.zeros_like(values))
        due = values + self.errors[self.written]
        payload = self.wire.encode(due)
        # After an overflow the error is unknown: a new start from 0.
        self.errors[self.written] = due.sub_(self.wire.decode(payload)).nan_to_num_(0.0, 0.0, 0.0)
        self.written += 1
        return payload

    def decode(self, payload: Tensor) -> Tensor:
        """The values that a message says."""
        return self.wire.decode(payload) if payload.numel() else torch.empty(0, device=payload.device)


class Writers:
    """The writers of all buckets, by number."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._writers: dict[int, Writer] = {}

    def writer(self, bucket: int) -> Writer:
        """The writer of a bucket, at the start of an exchange."""
        writer = self._writers.setdefault(bucket, Writer(self.wire))
        writer.start()
        return writer

    def state(self) -> dict[str, Any]:
        """The errors that are still to be made good, bucket by bucket."""
        return {"errors": {bucket: list(writer.errors) for bucket, writer in self._writers.items()}}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        self._writers = {
            bucket: Writer(self.wire, [error.clone() for error in errors]) for bucket, errors in state["errors"].items()
        }


def wire_of(settings: TrainConfig) -> Any:
    """What the chosen communication precision is: a Wire, or a way of its own for all-reduce."""
    build: Callable[[TrainConfig], Any] = COMMUNICATION_PRECISIONS.load(settings.communication_precision)
    return build(settings)


def message_wire_of(settings: TrainConfig) -> Wire:
    """The chosen communication precision, for a mode that writes messages itself."""
    wire: Wire = wire_of(settings)
    assert hasattr(wire, "encode"), "the plan has checked it"
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
