"""The training loop: epochs of steps, each timed; evaluation and checkpoints in between, outside the timing."""

import time

from trainmark.data.epochs import Order, Views, epoch_order, epoch_views, replica_batches, unchanged
from trainmark.spec.layout import global_batch
from trainmark.train.checkpoint import Checkpoints, Position
from trainmark.train.evaluation import evaluate
from trainmark.train.event_log import EventLog
from trainmark.train.learning_rate import is_collapsed, learning_rate, weight_decay_factor
from trainmark.train.schedules import Progress
from trainmark.train.step_recorder import StepRecorder
from trainmark.train.torch.process_group import barrier
from trainmark.train.torch.step import set_rate, set_weight_decay, step_of
from trainmark.train.torch.trainee import Step, Trainee


def train(trainee: Trainee, checkpoints: Checkpoints, log: EventLog, position: Position) -> float | None:
    """All that is left from `position` on; the last evaluation's quality comes back on rank 0."""
    config = trainee.config
    recorder = StepRecorder(log, trainee.device)
    step = step_of(trainee)
    quality = None
    while position.epoch < config.train.epochs:
        epoch = position.epoch
        position = _train_epoch(trainee, step, recorder, checkpoints, position)
        is_last = position.epoch == config.train.epochs
        if trainee.eval_batches and (is_last or position.epoch % config.evaluate.every_epochs == 0):
            quality = evaluate(trainee, epoch, log)
        # Not after the last epoch, so that a resumed member always trains, and has timings of its own.
        if not is_last and checkpoints.are_due_after_epoch(position):
            checkpoints.save(trainee, position)
        barrier()
    return quality


def _train_epoch(
    trainee: Trainee, step: Step, recorder: StepRecorder, checkpoints: Checkpoints, position: Position
) -> Position:
    """The rest of the position's epoch; the position after it comes back."""
    train = trainee.config.train
    rows, views = _batches_of(trainee, position.epoch)
    todo = range(position.step_of_epoch, len(rows))
    plan = [_progress(trainee, position, i, len(rows)) for i in todo]
    views = None if views is None else _without_collapsed(trainee, plan, views[position.step_of_epoch :])
    rates = [learning_rate(p, global_batch(train, trainee.workers), train, trainee.schedule) for p in plan]
    batches = trainee.train_batches.take(rows[position.step_of_epoch :], views)
    recorder.start_epoch(position.epoch, position.step)
    waiting = time.perf_counter_ns()
    for progress, rate, (inputs, targets) in zip(plan, rates, batches, strict=True):
        ready = time.perf_counter_ns()
        set_weight_decay(trainee.optimizer, weight_decay_factor(progress, train))
        set_rate(trainee.optimizer, rate, train.momentum_correction)
        recorder.add(ready - waiting, step(inputs, targets), rate)
        done = progress.step + 1
        if checkpoints.are_due_after_step(done) and progress is not plan[-1]:
            with recorder.paused():
                trainee.communicator.settle()
                here = position.step_of_epoch + done - position.step
                checkpoints.save(trainee, Position(done, position.epoch, here))
        waiting = time.perf_counter_ns()
    trainee.communicator.settle()  # inside the epoch's time: what is still under way belongs to it
    recorder.stop_epoch()
    recorder.close_epoch(len(todo) * global_batch(train, trainee.workers), trainee.parallelism.facts())
    return Position(position.step + len(todo), position.epoch + 1, 0)


def _batches_of(trainee: Trainee, epoch: int) -> tuple[Order, Views | None]:
    """The sample numbers of each step of this rank, and how the samples are seen."""
    config, replica = trainee.config, trainee.layout.replica_of(trainee.rank)
    order = epoch_order(trainee.counts, config.seed, trainee.member, epoch)
    rows = replica_batches(order, replica, config.train, trainee.workers)
    views = epoch_views(config.train.augmentation, len(order), config.seed, trainee.member, epoch)
    return rows, None if views is None else replica_batches(views, replica, config.train, trainee.workers)


def _without_collapsed(trainee: Trainee, plan: list[Progress], views: Views) -> Views:
    """The views, with none changed in collapsed final epochs."""
    collapsed = [is_collapsed(progress, trainee.config.train) for progress in plan]
    views[collapsed] = unchanged(views[collapsed])
    return views


def _progress(trainee: Trainee, position: Position, step_of_epoch: int, steps: int) -> Progress:
    train = trainee.config.train
    step = position.step + step_of_epoch - position.step_of_epoch
    return Progress(step, steps, train.epochs * steps, train.warmup_epochs * steps)
