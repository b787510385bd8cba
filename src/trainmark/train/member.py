"""One rank's part in training one member, from set-up to completion record, stage by stage."""

import math
import os
import resource
import socket
import time
from functools import partial

from trainmark.data.epochs import steps_per_epoch
from trainmark.machine.allocators import loaded_allocator
from trainmark.machine.software import recorded_environment
from trainmark.machine.storage import read_when_visible
from trainmark.machine.topology import check_affinity
from trainmark.spec.events import ModelReady, RankStarted, RunStart, RunStop, StartWait
from trainmark.spec.files import write_json, write_text
from trainmark.spec.machine_events import Memory
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.ceiling import measure_after, measure_before, patience_of
from trainmark.train.checkpoints import Checkpoints, agree_on_checkpoints, find_checkpoints, resume_from_newest
from trainmark.train.end_request import EndRequest
from trainmark.train.engine import Data, Engine, RankContext, load_engine
from trainmark.train.evaluation import write_predictions
from trainmark.train.loop import train
from trainmark.train.open_data import open_data
from trainmark.train.usage_log import sample_usage

POLL_START_S = 0.01


def train_member(context: RankContext, attempt_number: int, request: EndRequest, *, waits_for_start: bool) -> None:
    """The member is trained; rank 0 leaves predictions and the completion record."""
    record, rank, attempt, log = context.record, context.rank, context.attempt, context.log
    engine = load_engine(context)
    _set_up(context, engine)
    data = open_data(context)  # before `join`: it forks readers, and no other threads are at work yet
    store = engine.join()
    request.agree_over(store, rank.rank, context.workers, context.config.train)
    stop_sampling = sample_usage(record, rank, attempt)  # now that all ranks of the node have said what they are
    _build(context, engine, data)
    steps = steps_per_epoch(int(data.counts.sum()), context.config.train, context.workers)
    find = partial(find_checkpoints, record.folder, context.member, attempt_number)
    position = resume_from_newest(agree_on_checkpoints(find, rank.rank, store), context, engine, store, steps)
    if waits_for_start:
        log.write(StartWait())
        wait_for_start(attempt, rank.rank)
    measure_before(context, engine)
    engine.barrier()
    began_s = time.monotonic()
    log.write(RunStart(epoch=position.epoch))
    quality = train(context, engine, data, Checkpoints(context, store, request), position)
    log.write(RunStop(quality=quality))
    training_s = time.monotonic() - began_s
    write_predictions(context, engine, data, attempt.predictions)
    _record_memory(context, engine)
    stop_sampling()
    engine.barrier()
    if rank.rank == 0:
        _record_completion(context, attempt_number, quality)
    # Members that run on their own did so when they measured before.
    has_neighbours = waits_for_start or context.config.launch.allocation == "one"
    measure_after(context, engine, store, patience_of(record, training_s) if has_neighbours else None)
    engine.leave()


def _set_up(context: RankContext, engine: Engine) -> None:
    """The process is ready to measure, and what it is stands in the events."""
    device = engine.set_up()
    context.log.write(
        RankStarted(
            host=socket.gethostname(),
            pid=os.getpid(),
            rank=context.rank.rank,
            device=device.name,
            device_uuid=device.uuid,
            affinity=check_affinity(context.rank.cores, context.threads, device.threads),
            environment=recorded_environment(),
            allocator=loaded_allocator(),
            software=device.software,
        )
    )


def _build(context: RankContext, engine: Engine, data: Data) -> None:
    """Model and optimizer are there; rank 0 says what the model costs and which options are on."""
    ready = engine.build(data)
    if context.rank.rank == 0:
        from trainmark.workloads.flops.count import count_model  # with torch: FLOPs are counted once for all engines

        config = context.config
        context.log.write(ModelReady(**count_model(config.model, config.model_settings, data.sample_shape)))
        context.log.write(ready)


def wait_for_start(attempt: AttemptFolder, rank: int) -> None:
    """Returns at the start time that the launcher wrote for all members; where clocks disagree, after its delay."""
    write_text(attempt.ready(rank), "")
    start_at, delay_s = read_when_visible(lambda: _read_start(attempt), attempt.path, math.inf, POLL_START_S)
    time.sleep(min(delay_s, max(0.0, start_at - time.time())))


def _read_start(attempt: AttemptFolder) -> tuple[float, float]:
    start_at, delay_s = map(float, attempt.go.read_text().split())
    return start_at, delay_s


def _record_memory(context: RankContext, engine: Engine) -> None:
    """The most memory that this rank has held, on the host and on the device."""
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    context.log.write(Memory(resident_bytes=resident, device_bytes=engine.peak_device_bytes()))


def _record_completion(context: RankContext, attempt_number: int, quality: float | None) -> None:
    done = {
        "member": context.member,
        "attempt": attempt_number,
        "quality": quality,
        "predictions": context.attempt.predictions.exists(),  # synthetic data have none
    }
    write_json(context.attempt.done, done)
