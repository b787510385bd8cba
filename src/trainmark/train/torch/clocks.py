"""Clocks of the torch engine: the host's for CPUs, events in the stream for GPUs."""

import torch
from torch import Tensor

from trainmark.train.engine import HostClock


class CpuClock(HostClock):
    """The host's clock; losses are read in one transfer."""

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses as plain numbers."""
        values: list[float] = torch.stack(losses).double().tolist()
        return values


class GpuClock:
    """Events in the GPU's stream, which runs behind the host."""

    def __init__(self) -> None:
        # Losses of finished steps are read on a separate stream, so that reading does not wait for later steps.
        self._fetching = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def stamp(self) -> torch.cuda.Event:
        """Records an event in the current stream."""
        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def num_finished(self, stamps: list[torch.cuda.Event]) -> int:
        """How many of these events the GPU has reached."""
        return next((i for i, event in enumerate(stamps) if not event.query()), len(stamps))  # type: ignore[no-untyped-call]

    def seconds_between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """GPU time."""
        seconds: float = start.elapsed_time(end) / 1e3
        return seconds

    def read(self, losses: list[Tensor]) -> list[float]:
        """The losses of steps that the GPU has finished."""
        with torch.cuda.stream(self._fetching):
            values: list[float] = torch.stack(losses).double().tolist()
        return values

    def wait(self) -> None:
        """Returns when the GPU is idle."""
        torch.cuda.synchronize()
