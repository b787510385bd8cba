"""Time spent in sections of a worker's step, on the clock of the device that does the work."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

Instant = float | torch.cuda.Event


class Stopwatch:
    """Sums the time of named sections: wall time on the CPU, the stream's own time on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._open: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()

    def now(self) -> Instant:
        """This moment of the work: of the host, or of the current stream, where it may still lie ahead."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def add(self, name: str, start: Instant) -> None:
        """The time from `start` until now counts as `name`'s."""
        end = self.now()
        if isinstance(start, float):
            assert isinstance(end, float)
            self._seconds[name] += end - start
        else:
            assert isinstance(end, torch.cuda.Event)
            self._open.append((name, start, end))
            self._close(only_finished=True)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """The time inside counts as `name`'s."""
        start = self.now()
        yield
        self.add(name, start)

    def read(self) -> defaultdict[str, float]:
        """The seconds of each section since the last reading."""
        self._close(only_finished=False)
        seconds, self._seconds = self._seconds, defaultdict(float)
        return seconds

    def _close(self, *, only_finished: bool) -> None:
        while self._open:
            name, first, last = self._open[0]
            if only_finished and not last.query():  # type: ignore[no-untyped-call]
                return
            last.synchronize()
            self._seconds[name] += first.elapsed_time(last) / 1e3
            self._open.popleft()
