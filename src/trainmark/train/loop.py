"""The training loop: epochs of steps, each timed; evaluation and checkpoints in between, outside the timing."""

import time

from trainmark.data.epochs import Indices, Views, epoch_order, epoch_views, replica_batches, unchanged
from trainmark.spec.layout import global_batch, layout_of
from trainmark.spec.registries import SCHEDULES
from trainmark.train.checkpoints import Checkpoints, Position
from trainmark.train.engine import Data, Engine, RankContext
from trainmark.train.evaluation import evaluate
from trainmark.train.learning_rate import Progress, is_collapsed, learning_rate, weight_decay_factor
from trainmark.train.step_recorder import StepRecorder
from trainmark.train.traffic import Traffic


def train(
    context: RankContext, engine: Engine, data: Data, checkpoints: Checkpoints, position: Position
) -> float | None:
    """Trains from `position` to the end; returns the quality of the last evaluation on rank 0."""
    config = context.config
    recorder = StepRecorder(context.log, engine.clock, Traffic(engine.why_bytes_uncounted()))
    quality = None
    while position.epoch < config.train.epochs:
        epoch = position.epoch
        position = _train_epoch(context, engine, data, recorder, checkpoints, position)
        is_last = position.epoch == config.train.epochs
        if data.evaluation is not None and (is_last or position.epoch % config.evaluate.every_epochs == 0):
            quality = evaluate(context, engine, data.evaluation, epoch)
        # Not after the last epoch, so that a resumed member always trains and has timings.
        if not is_last and checkpoints.are_due_after_epoch(position):
            checkpoints.save(engine, position)
        engine.barrier()
    return quality


def _train_epoch(
    context: RankContext,
    engine: Engine,
    data: Data,
    recorder: StepRecorder,
    checkpoints: Checkpoints,
    position: Position,
) -> Position:
    """Trains the rest of the current epoch; returns the position after it."""
    rows, views = _batches_of(context, data, position.epoch)
    steps = _progress(context, position, len(rows))
    first = position.step_of_epoch
    views = None if views is None else _unaugmented_at_end(context, steps, views[first:])
    rates = _rates(context, steps)
    batches = engine.feed(rows[first:], views)
    recorder.start_epoch(position.epoch, position.step)
    waiting = time.perf_counter_ns()
    for done, (batch, (rate, decay_factor)) in enumerate(zip(batches, rates, strict=True), position.step + 1):
        ready = time.perf_counter_ns()
        recorder.add(ready - waiting, engine.step(batch, rate, decay_factor), rate)
        if checkpoints.are_due_after_step(done) and done < position.step + len(steps):
            with recorder.paused():
                engine.sync_weights()
                checkpoints.save(engine, Position(done, position.epoch, first + done - position.step))
        waiting = time.perf_counter_ns()
    engine.sync_weights()  # inside the epoch's time, which includes pending exchanges
    recorder.stop_epoch()
    recorder.close_epoch(len(steps) * global_batch(context.config.train, context.workers), engine.epoch_facts())
    return Position(position.step + len(steps), position.epoch + 1, 0)


def _batches_of(context: RankContext, data: Data, epoch: int) -> tuple[Indices, Views | None]:
    """The sample indices of each step of this rank, and the augmentation of each sample."""
    config, workers = context.config, context.workers
    replica = layout_of(config.train, workers).replica_of(context.rank.rank)
    order = epoch_order(data.counts, config.seed, context.member, epoch)
    rows = replica_batches(order, replica, config.train, workers)
    views = epoch_views(config.train.augmentation, len(order), config.seed, context.member, epoch)
    return rows, None if views is None else replica_batches(views, replica, config.train, workers)


def _progress(context: RankContext, position: Position, per_epoch: int) -> list[Progress]:
    """The progress at each remaining step of the epoch."""
    train, start = context.config.train, position.step - position.step_of_epoch
    total, warmup = train.epochs * per_epoch, train.warmup_epochs * per_epoch
    return [Progress(start + step, per_epoch, total, warmup) for step in range(position.step_of_epoch, per_epoch)]


def _unaugmented_at_end(context: RankContext, steps: list[Progress], views: Views) -> Views:
    """The views, with augmentation switched off in the final collapse."""
    collapsed = [is_collapsed(progress, context.config.train) for progress in steps]
    views[collapsed] = unchanged(views[collapsed])
    return views


def _rates(context: RankContext, steps: list[Progress]) -> list[tuple[float, float]]:
    """The learning rate and weight-decay factor of each step."""
    train, schedule = context.config.train, SCHEDULES.load(context.config.train.schedule)
    batch = global_batch(train, context.workers)
    return [(learning_rate(step, batch, train, schedule), weight_decay_factor(step, train)) for step in steps]
