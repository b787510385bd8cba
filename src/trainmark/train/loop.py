"""The training loop: epochs of steps, each timed; evaluation and checkpoints between epochs, outside the timing."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from trainmark.data.epochs import epoch_order, rank_batches
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.schedule import Progress
from trainmark.train.checkpoint import save_checkpoint
from trainmark.train.evaluation import evaluate
from trainmark.train.event_log import EventLog
from trainmark.train.process_group import average_buffers, barrier
from trainmark.train.step_recorder import StepRecorder
from trainmark.train.trainee import Trainee


def train(trainee: Trainee, attempt: AttemptFolder, log: EventLog, first_epoch: int, first_step: int) -> float | None:
    """All epochs from `first_epoch` on; the last evaluation's quality comes back on rank 0."""
    config = trainee.config
    recorder = StepRecorder(log, trainee.device)
    step, quality = first_step, None
    for epoch in range(first_epoch, config.train.epochs):
        step = _train_epoch(trainee, recorder, epoch, step)
        average_buffers(trainee.model)
        is_last = epoch + 1 == config.train.epochs
        if is_last or (epoch + 1) % config.evaluate.every_epochs == 0:
            quality = evaluate(trainee, epoch, log)
        every = config.launch.checkpoint_epochs
        # Not after the last epoch, so that a resumed member always trains, and has timings of its own.
        if trainee.rank == 0 and every and not is_last and (epoch + 1) % every == 0:
            save_checkpoint(attempt.checkpoint, trainee.model, trainee.optimizer, epoch + 1, step)
            log.write("checkpoint", epoch=epoch)
        barrier()
    return quality


def _train_epoch(trainee: Trainee, recorder: StepRecorder, epoch: int, step: int) -> int:
    """One epoch; the number of the step after it comes back."""
    config = trainee.config
    order = epoch_order(trainee.counts, config.seed, trainee.member, epoch)
    rows = rank_batches(order, trainee.rank, trainee.workers, config.train.batch_size)
    rates = _learning_rates(trainee, step, len(rows))
    trainee.shared_model.train()
    batches = trainee.train_batches.take(rows)
    recorder.start_epoch(epoch, step)
    start = waiting = time.perf_counter_ns()
    for (inputs, targets), rate in zip(batches, rates, strict=True):
        ready = time.perf_counter_ns()
        loss = _step(trainee, inputs, targets, rate)
        recorder.add(ready - waiting, loss)
        waiting = time.perf_counter_ns()
    if trainee.device.type == "cuda":
        torch.cuda.synchronize()
    recorder.stop_epoch(rows.size, (time.perf_counter_ns() - start) / 1e9)
    return step + len(rows)


def _step(trainee: Trainee, inputs: Tensor, targets: Tensor, rate: float) -> Tensor:
    """One update of the weights; the batch's loss comes back, still on the device."""
    optimizer = trainee.optimizer
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss: Tensor = trainee.task.loss(trainee.shared_model(inputs), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def _learning_rates(trainee: Trainee, first_step: int, steps: int) -> Iterator[float]:
    """The rate of each of an epoch's steps."""
    train = trainee.config.train
    for step in range(first_step, first_step + steps):
        progress = Progress(step, steps, train.epochs * steps, trainee.workers * train.batch_size)
        yield trainee.schedule(progress, train)
