"""StepRecorder: step times and losses, buffered and written in blocks, so that recording costs microseconds."""

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from trainmark.machine.counters import OF_TRAINING, Counting
from trainmark.machine.resident import PeakMeter, take_peak_resident_bytes
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import EpochFacts, EpochStart, EpochStop, Steps
from trainmark.spec.failures import LOSS_BECAME
from trainmark.spec.machine_events import StepMemory
from trainmark.train.engine import Clock, Engine, Loss, RankContext, Stamp
from trainmark.train.event_log import EventLog
from trainmark.train.step_measures import StepMeasures
from trainmark.train.traffic import Traffic

SECONDS_BETWEEN_BLOCKS = 1.0


@contextmanager
def recording(context: RankContext, engine: Engine, trained_s: float) -> Iterator["StepRecorder"]:
    """A recorder of this rank's steps; at the end, logs the hardware counters of all steps."""
    meter = _meter(context, engine) if context.config.measure.step_memory else None
    with closing(Counting(OF_TRAINING)) as counters:
        traffic = Traffic(engine.why_bytes_uncounted())
        yield StepRecorder(context.log, engine.clock, traffic, trained_s, counters, meter)
        context.log.write(counters.as_event())
    if meter is not None:
        context.log.write(StepMemory(where=meter.where, largest_bytes=meter.largest_bytes, reason=meter.reason))


def _meter(context: RankContext, engine: Engine) -> PeakMeter:
    if context.rank.accelerator is None:
        return PeakMeter("host", take_peak_resident_bytes)
    return PeakMeter("accelerator", engine.take_peak_device_bytes)


class DivergedError(TrainmarkError):
    """The loss is not finite."""


class StepRecorder:
    """Stamps the end of every step with the engine's clock; never waits for the device."""

    def __init__(
        self,
        log: EventLog,
        clock: Clock,
        traffic: Traffic,
        trained_s: float = 0.0,
        counters: Counting | None = None,
        meter: PeakMeter | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._traffic = traffic
        self._counters = counters or Counting(())
        self._meter = meter
        self._steps: list[tuple[Stamp, int, Loss, float]] = []  # end, wait for data in ns, loss, learning rate
        self._peaks: list[int] = []  # of memory, of the steps in `_steps`
        self._last_end: Stamp = None
        self._epoch = 0
        self._first_step = 0
        self._first_of_epoch = 0
        self._measures: StepMeasures = {}
        self._last_block_ns = 0
        self._harness_ns = 0
        self._began_ns = 0
        self._epoch_ns = 0
        self._trained_ns = round(1e9 * trained_s)  # in earlier attempts and epochs
        self._is_running = False
        self._lag_s = 0.0  # at least how long the device will take for the steps submitted to it

    def trained_s(self) -> float:
        """The time of all epochs, also of earlier attempts, at the end of the steps so far; excludes pauses."""
        running_ns = time.perf_counter_ns() - self._began_ns if self._is_running else 0
        return (self._trained_ns + running_ns) / 1e9 + self._lag_s

    def start_epoch(self, epoch: int, step: int, measures: StepMeasures | None = None) -> None:
        """Starts the clock of the epoch's first step; `measures` are those of its steps from this one on."""
        self._log.write(EpochStart(epoch=epoch, step=step))
        self._epoch, self._first_step, self._first_of_epoch = epoch, step, step
        self._measures = measures or {}
        self._harness_ns = self._epoch_ns = 0
        self._start_clock()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the block from step and epoch times."""
        self._stop_clock()
        yield
        self._start_clock()

    def _start_clock(self) -> None:
        self._traffic.start()
        self._counters.resume()
        if self._meter is not None:
            self._meter.read()  # what was before does not belong to a step
        self._last_end = self._clock.stamp()
        self._began_ns = self._last_block_ns = time.perf_counter_ns()
        self._is_running = True

    def _stop_clock(self) -> None:
        self._clock.wait()
        lasted_ns = time.perf_counter_ns() - self._began_ns
        self._epoch_ns += lasted_ns
        self._trained_ns += lasted_ns
        self._is_running = False
        self._counters.pause()
        self._traffic.stop()
        self._write_block(len(self._steps))
        self._lag_s = 0.0

    def add(self, wait_ns: int, loss: Loss, rate: float) -> None:
        """Records a step that ended now, after waiting `wait_ns` for its batch, at this learning rate."""
        start = time.perf_counter_ns()
        self._steps.append((self._clock.stamp(), wait_ns, loss, rate))
        if self._meter is not None and (peak := self._meter.read()) is not None:
            self._peaks.append(peak)
        if start - self._last_block_ns > SECONDS_BETWEEN_BLOCKS * 1e9:
            self._write_block(self._clock.num_finished([end for end, *_ in self._steps]))
            self._last_block_ns = start
        self._harness_ns += time.perf_counter_ns() - start

    def stop_epoch(self) -> None:
        """Stops the epoch's clock and writes the remaining steps."""
        self._stop_clock()

    def close_epoch(self, samples: int, steps_per_epoch: int, facts: EpochFacts) -> None:
        """Writes the epoch's totals; `samples` are those of all workers, and `facts` override the counted traffic."""
        measured: EpochFacts = {**self._traffic.take(), **facts}
        self._log.write(
            EpochStop(
                epoch=self._epoch,
                next_step=self._first_step,
                samples=samples,
                steps_per_epoch=steps_per_epoch,
                epoch_s=self._epoch_ns / 1e9,
                harness_s=self._harness_ns / 1e9,
                **measured,
            )
        )

    def _write_block(self, count: int) -> None:
        if count == 0:
            return
        block, self._steps = self._steps[:count], self._steps[count:]
        peaks, self._peaks = self._peaks[:count], self._peaks[count:]
        ends, waits, pending_losses, rates = zip(*block, strict=True)
        losses = self._clock.read(list(pending_losses))
        starts = [self._last_end, *ends[:-1]]
        self._last_end = ends[-1]
        step_s = [round(self._clock.seconds_between(a, b), 9) for a, b in zip(starts, ends, strict=True)]
        self._lag_s = len(self._steps) * min(step_s)  # the least: others may have compiled
        self._log.write(
            Steps(
                epoch=self._epoch,
                first_step=self._first_step,
                step_s=step_s,
                wait_s=[wait / 1e9 for wait in waits],
                loss=[loss if math.isfinite(loss) else None for loss in losses],
                learning_rate=list(rates),
                memory_bytes=peaks,
                **self._measures_of(count),
            )
        )
        self._refuse_divergence(losses)
        self._first_step += count

    def _measures_of(self, count: int) -> StepMeasures:
        """The measures of the next `count` steps."""
        if not self._measures:
            return {}
        start = self._first_step - self._first_of_epoch
        part, measures = slice(start, start + count), self._measures
        found: StepMeasures = {
            "samples": measures["samples"][part],
            "informative_px": measures["informative_px"][part],
            "total_px": measures["total_px"][part],
        }
        if "flop" in measures:
            found["flop"] = {convention: flop[part] for convention, flop in measures["flop"].items()}
        return found

    def _refuse_divergence(self, losses: list[float]) -> None:
        for step, loss in enumerate(losses, self._first_step):
            if not math.isfinite(loss):
                raise DivergedError(
                    f"{LOSS_BECAME} {loss} at step {step}. "
                    "Start a new run with a lower --set train.learning_rate or more --set train.warmup_epochs."
                )
