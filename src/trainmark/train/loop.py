"""The training loop: epochs of steps, each timed; evaluation and checkpoints in between, outside the timing."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from trainmark.data.epochs import ReplicaEpoch, replica_epoch, unchanged
from trainmark.spec.layout import global_batch, layout_of
from trainmark.spec.length import scheduled_steps
from trainmark.spec.registries import SCHEDULES
from trainmark.train.checkpoints import Checkpoints, Position
from trainmark.train.end_of_training import EndOfTraining
from trainmark.train.engine import Batch, Data, Engine, RankContext
from trainmark.train.evaluation import evaluate
from trainmark.train.step_measures import MeasureLoads, step_measures
from trainmark.train.step_recorder import StepRecorder, recording
from trainmark.workloads.learning_rate import Progress, is_collapsed, learning_rate, weight_decay_factor

Rate = tuple[float, float]  # learning rate, factor on the weight decay


class Training(NamedTuple):
    """What every epoch of a member works with."""

    context: RankContext
    engine: Engine
    data: Data
    checkpoints: Checkpoints
    end: EndOfTraining
    recorder: StepRecorder
    measure_loads: MeasureLoads


def train(
    context: RankContext, engine: Engine, data: Data, checkpoints: Checkpoints, position: Position, end: EndOfTraining
) -> tuple[float | None, Position]:
    """Trains from `position` to the end; returns rank 0's quality of the last evaluation, and the position then."""
    quality, is_over = None, False
    with recording(context, engine, position.trained_s) as recorder:
        training = Training(context, engine, data, checkpoints, end, recorder, step_measures(context))
        while not is_over:
            epoch = position.epoch
            position = _train_epoch(training, position)
            is_over = end.has_come(position.step, recorder.trained_s)
            if data.evaluation is not None and (is_over or position.epoch % context.config.evaluate.every_epochs == 0):
                quality = evaluate(context, engine, data.evaluation, epoch)
                is_over |= end.is_reached_by(quality, epoch)
            # Not at the end, so that a resumed member always trains and has timings.
            if not is_over and checkpoints.are_due_after_epoch(position):
                checkpoints.save(engine, position)
            engine.barrier()
    return quality, position


def _train_epoch(training: Training, position: Position) -> Position:
    """Trains the rest of the current epoch, or up to the end of training; returns the position after it."""
    context, engine, recorder = training.context, training.engine, training.recorder
    whole = _epoch_of(context, training.data, position.epoch)
    steps = _progress(context, position, len(whole))[: training.end.steps_left(position.step)]
    planned = whole.part(slice(position.step_of_epoch, position.step_of_epoch + len(steps)))
    _unaugment_end(context, steps, planned)
    rates = _rates(context, steps)
    batches = engine.feed(planned.rows, planned.views, planned.passes)
    recorder.start_epoch(position.epoch, position.step, training.measure_loads(planned.loads))
    done = _train_steps(training, position, batches, rates)
    engine.sync_weights()  # inside the epoch's time, which includes pending exchanges
    recorder.stop_epoch()
    samples = planned.num_samples(done - position.step, global_batch(context.config.train, context.workers))
    recorder.close_epoch(samples, len(whole), engine.epoch_facts())
    return Position(done, position.epoch + 1, 0, recorder.trained_s())


def _train_steps(training: Training, position: Position, batches: Iterator[Batch], rates: list[Rate]) -> int:
    """Trains the batches, or fewer if the end of training comes; returns the number of the step after them."""
    _, engine, _, checkpoints, end, recorder, _ = training
    done, waiting = position.step, time.perf_counter_ns()
    for done, (rate, decay_factor) in enumerate(rates, position.step + 1):
        batch = next(batches)
        ready = time.perf_counter_ns()
        loss = engine.step(batch, rate, decay_factor)
        recorder.add(ready - waiting + getattr(batch, "waited_ns", 0), loss, rate)  # also for passes taken within
        del batch  # the next one may take its memory, which is still in the cache
        if end.has_come(done, recorder.trained_s):
            break
        if checkpoints.are_due_after_step(done) and done < position.step + len(rates):
            with recorder.paused():
                engine.sync_weights()
                within = position.step_of_epoch + done - position.step
                checkpoints.save(engine, Position(done, position.epoch, within, recorder.trained_s()))
        waiting = time.perf_counter_ns()
    return done


def _epoch_of(context: RankContext, data: Data, epoch: int) -> ReplicaEpoch:
    """What this rank's replica trains in an epoch."""
    replica = layout_of(context.config.train, context.workers).replica_of(context.rank.rank)
    return replica_epoch(context.config, data.counts, data.shapes, context.member, epoch, replica)


def _progress(context: RankContext, position: Position, per_epoch: int) -> list[Progress]:
    """The progress at each remaining step of the epoch."""
    train, end = context.config.train, position.step - position.step_of_epoch + per_epoch
    total, warmup = scheduled_steps(train, per_epoch), train.warmup_epochs * per_epoch
    # A run of minutes may train beyond its schedule, which then keeps its last value.
    return [Progress(min(step, total - 1), per_epoch, total, warmup) for step in range(position.step, end)]


def _unaugment_end(context: RankContext, steps: list[Progress], planned: ReplicaEpoch) -> None:
    """Switches augmentation off in the final collapse."""
    if planned.views is not None:
        for number, progress in enumerate(steps):
            if is_collapsed(progress, context.config.train):
                planned.views[number] = unchanged(planned.views[number])


def _rates(context: RankContext, steps: list[Progress]) -> list[Rate]:
    """The learning rate and weight-decay factor of each step."""
    train, schedule = context.config.train, SCHEDULES.load(context.config.train.schedule)
    batch = global_batch(train, context.workers)
    return [(learning_rate(step, batch, train, schedule), weight_decay_factor(step, train)) for step in steps]
