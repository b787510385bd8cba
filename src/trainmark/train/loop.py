"""The training loop: epochs of steps, each timed; evaluation and checkpoints in between, outside the timing."""

import time

from trainmark.data.epochs import Order, Views, epoch_order, epoch_views, replica_batches, unchanged
from trainmark.spec.layout import global_batch, layout_of
from trainmark.spec.registries import SCHEDULES
from trainmark.train.checkpoints import Checkpoints, Position
from trainmark.train.engine import Data, Engine, RankContext
from trainmark.train.evaluation import evaluate
from trainmark.train.learning_rate import is_collapsed, learning_rate, weight_decay_factor
from trainmark.train.schedules import Progress
from trainmark.train.step_recorder import StepRecorder
from trainmark.train.traffic import Traffic


def train(
    context: RankContext, engine: Engine, data: Data, checkpoints: Checkpoints, position: Position
) -> float | None:
    """All that is left from `position` on; the last evaluation's quality comes back on rank 0."""
    config = context.config
    recorder = StepRecorder(context.log, engine.clock, Traffic(engine.why_bytes_unseen()))
    quality = None
    while position.epoch < config.train.epochs:
        epoch = position.epoch
        position = _train_epoch(context, engine, data, recorder, checkpoints, position)
        is_last = position.epoch == config.train.epochs
        if data.evaluation is not None and (is_last or position.epoch % config.evaluate.every_epochs == 0):
            quality = evaluate(context, engine, data.evaluation, epoch)
        # Not after the last epoch, so that a resumed member always trains, and has timings of its own.
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
    """The rest of the position's epoch; the position after it comes back."""
    rows, views = _batches_of(context, data, position.epoch)
    plan = _plan(context, position, len(rows))
    first = position.step_of_epoch
    views = None if views is None else _without_collapsed(context, plan, views[first:])
    settings = _settings_of(context, plan)
    batches = engine.feed(rows[first:], views)
    recorder.start_epoch(position.epoch, position.step)
    waiting = time.perf_counter_ns()
    for done, (batch, (rate, decay_factor)) in enumerate(zip(batches, settings, strict=True), position.step + 1):
        ready = time.perf_counter_ns()
        recorder.add(ready - waiting, engine.step(batch, rate, decay_factor), rate)
        if checkpoints.are_due_after_step(done) and done < position.step + len(plan):
            with recorder.paused():
                engine.settle()
                checkpoints.save(engine, Position(done, position.epoch, first + done - position.step))
        waiting = time.perf_counter_ns()
    engine.settle()  # inside the epoch's time: what is still under way belongs to it
    recorder.stop_epoch()
    recorder.close_epoch(len(plan) * global_batch(context.config.train, context.workers), engine.epoch_facts())
    return Position(position.step + len(plan), position.epoch + 1, 0)


def _batches_of(context: RankContext, data: Data, epoch: int) -> tuple[Order, Views | None]:
    """The sample numbers of each step of this rank, and how the samples are seen."""
    config, workers = context.config, context.workers
    replica = layout_of(config.train, workers).replica_of(context.rank.rank)
    order = epoch_order(data.counts, config.seed, context.member, epoch)
    rows = replica_batches(order, replica, config.train, workers)
    views = epoch_views(config.train.augmentation, len(order), config.seed, context.member, epoch)
    return rows, None if views is None else replica_batches(views, replica, config.train, workers)


def _plan(context: RankContext, position: Position, steps: int) -> list[Progress]:
    """Where training stands at each step that is left of the epoch."""
    train, start = context.config.train, position.step - position.step_of_epoch
    total, warmup = train.epochs * steps, train.warmup_epochs * steps
    return [Progress(start + step, steps, total, warmup) for step in range(position.step_of_epoch, steps)]


def _without_collapsed(context: RankContext, plan: list[Progress], views: Views) -> Views:
    """The views, with none changed in collapsed final epochs."""
    collapsed = [is_collapsed(progress, context.config.train) for progress in plan]
    views[collapsed] = unchanged(views[collapsed])
    return views


def _settings_of(context: RankContext, plan: list[Progress]) -> list[tuple[float, float]]:
    """The learning rate and the factor of weight decay of each step."""
    train, schedule = context.config.train, SCHEDULES.load(context.config.train.schedule)
    batch = global_batch(train, context.workers)
    return [(learning_rate(step, batch, train, schedule), weight_decay_factor(step, train)) for step in plan]
