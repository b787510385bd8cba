"""Time spent in sections of a step, on the clock of the device."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

Instant = float | torch.cuda.Event


class Stopwatch:
    """Sums the time of named sections: wall time on the CPU, stream time on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._pending: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()

    def now(self) -> Instant:
        """A time stamp on the host or in the current stream, where it may still be pending."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def add(self, name: str, start: Instant) -> None:
        """Adds the time from `start` until now to `name`."""
        end = self.now()
        if isinstance(start, float):
            assert isinstance(end, float)
            self._seconds[name] += end - start
        else:
            assert isinstance(end, torch.cuda.Event)
            self._pending.append((name, start, end))
            self._collect(only_finished=True)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Adds the time of the block to `name`."""
        start = self.now()
        yield
        self.add(name, start)

    def read(self) -> defaultdict[str, float]:
        """Returns the seconds of each section since the last call."""
        self._collect(only_finished=False)
        seconds, self._seconds = self._seconds, defaultdict(float)
        return seconds

    def _collect(self, *, only_finished: bool) -> None:
        while self._pending:
            name, first, last = self._pending[0]
            if only_finished and not last.query():  # type: ignore[no-untyped-call]
                return
            last.synchronize()
            self._seconds[name] += first.elapsed_time(last) / 1e3
            self._pending.popleft()
