"""StepRecorder: what each step took, kept in memory and written in blocks, so that recording costs microseconds."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import EpochFacts, EpochStart, EpochStop, Steps
from trainmark.train.event_log import EventLog
from trainmark.train.torch.traffic import Traffic

SECONDS_BETWEEN_BLOCKS = 1.0


class DivergedError(TrainmarkError):
    """The loss is no longer a number."""


class StepRecorder:
    """Stamps the end of every step by the host's clock, or on a GPU by events in its stream; it never waits."""

    def __init__(self, log: EventLog, device: torch.device) -> None:
        self._log = log
        self._on_gpu = device.type == "cuda"
        self._waits_ns: list[int] = []
        self._ends: list[Any] = []
        self._losses: list[Tensor] = []
        self._rates: list[float] = []
        self._traffic = Traffic()
        # Losses of ended steps are fetched on a stream of their own, so that nothing waits for the steps behind them.
        self._fetching = torch.cuda.Stream() if self._on_gpu else None  # type: ignore[no-untyped-call]
        self._last_end: Any = None
        self._epoch = 0
        self._first_step = 0
        self._last_block_ns = 0
        self._harness_ns = 0
        self._began_ns = 0
        self._epoch_ns = 0

    def start_epoch(self, epoch: int, step: int) -> None:
        """The clock of the next step starts now."""
        self._log.write(EpochStart(epoch=epoch, step=step))
        self._epoch, self._first_step = epoch, step
        self._harness_ns = self._epoch_ns = 0
        self._start_clock()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is no part of any step or of the epoch's time."""
        self._stop_clock()
        yield
        self._start_clock()

    def _start_clock(self) -> None:
        self._traffic.start()
        self._last_end = self._stamp()
        self._began_ns = self._last_block_ns = time.perf_counter_ns()

    def _stop_clock(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()
        self._epoch_ns += time.perf_counter_ns() - self._began_ns
        self._traffic.stop()
        self._write_block(len(self._ends))

    def add(self, wait_ns: int, loss: Tensor, rate: float) -> None:
        """A step ended now; it had waited `wait_ns` for its batch and took place at this learning rate."""
        start = time.perf_counter_ns()
        self._losses.append(loss)
        self._rates.append(rate)
        self._ends.append(self._stamp())
        self._waits_ns.append(wait_ns)
        if start - self._last_block_ns > SECONDS_BETWEEN_BLOCKS * 1e9:
            self._write_block(self._num_ended())
            self._last_block_ns = start
        self._harness_ns += time.perf_counter_ns() - start

    def stop_epoch(self) -> None:
        """The epoch's steps are over; what is left of them is written."""
        self._stop_clock()

    def close_epoch(self, samples: int, facts: EpochFacts) -> None:
        """The epoch as a whole is written. `samples` are those of all workers; what `facts` say of bytes sent wins."""
        told: EpochFacts = {**self._traffic.take(), **facts}
        self._log.write(
            EpochStop(
                epoch=self._epoch,
                next_step=self._first_step,
                samples=samples,
                epoch_s=self._epoch_ns / 1e9,
                harness_s=self._harness_ns / 1e9,
                **told,
            )
        )

    def _fetch(self, losses: list[Tensor]) -> list[float]:
        """The losses of steps that the device has ended."""
        with torch.cuda.stream(self._fetching):  # without a GPU this does nothing
            values: list[float] = torch.stack(losses).double().tolist()
        return values

    def _stamp(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _num_ended(self) -> int:
        """How many steps the device has finished; a GPU runs behind the host."""
        if not self._on_gpu:
            return len(self._ends)
        return next((i for i, event in enumerate(self._ends) if not event.query()), len(self._ends))

    def _seconds_between(self, start: Any, end: Any) -> float:
        seconds: float = start.elapsed_time(end) / 1e3 if self._on_gpu else (end - start) / 1e9
        return seconds

    def _write_block(self, count: int) -> None:
        if count == 0:
            return
        ends, self._ends = self._ends[:count], self._ends[count:]
        waits, self._waits_ns = self._waits_ns[:count], self._waits_ns[count:]
        tensors, self._losses = self._losses[:count], self._losses[count:]
        rates, self._rates = self._rates[:count], self._rates[count:]
        losses = self._fetch(tensors)
        starts = [self._last_end, *ends[:-1]]
        self._last_end = ends[-1]
        self._log.write(
            Steps(
                epoch=self._epoch,
                first_step=self._first_step,
                step_s=[round(self._seconds_between(a, b), 9) for a, b in zip(starts, ends, strict=True)],
                wait_s=[wait / 1e9 for wait in waits],
                loss=[loss if math.isfinite(loss) else None for loss in losses],
                learning_rate=rates,
            )
        )
        self._refuse_divergence(losses)
        self._first_step += count

    def _refuse_divergence(self, losses: list[float]) -> None:
        for step, loss in enumerate(losses, self._first_step):
            if not math.isfinite(loss):
                raise DivergedError(
                    f"The loss became {loss} at step {step}. "
                    "Start a new run with a lower --set train.learning_rate or more --set train.warmup_epochs."
                )
