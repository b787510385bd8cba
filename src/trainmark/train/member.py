"""One rank's part in training one member, from set-up to completion record."""

import math
import os
import resource
import socket
import sys
import time
from functools import partial

from trainmark.data.epochs import steps_of_member
from trainmark.machine.allocators import loaded_allocator
from trainmark.machine.software import describe_software, recorded_environment
from trainmark.machine.storage import read_when_visible
from trainmark.machine.topology import check_affinity
from trainmark.spec.events import RankStarted, RunStart, RunStop, StartWait
from trainmark.spec.files import write_json, write_text
from trainmark.spec.machine_events import Memory
from trainmark.spec.model_events import ModelReady
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.ceiling import max_wait_s_of, measure_after, measure_before
from trainmark.train.checkpoints import Checkpoints, agree_on_checkpoints, find_checkpoints, resume_from_newest
from trainmark.train.end_of_training import EndOfTraining
from trainmark.train.end_request import EndRequest
from trainmark.train.engine import Data, Engine, RankContext, load_engine
from trainmark.train.evaluation import write_predictions
from trainmark.train.inference import measure_inference
from trainmark.train.loop import train
from trainmark.train.open_data import open_data
from trainmark.train.usage_log import sample_usage

POLL_START_S = 0.01


def train_member(context: RankContext, attempt_number: int, request: EndRequest, *, waits_for_start: bool) -> None:
    """Trains the member; rank 0 writes predictions and the completion record."""
    record, rank, attempt, log = context.record, context.rank, context.attempt, context.log
    engine = load_engine(context)
    _set_up(context, engine)
    data = open_data(context)  # before `join`, which starts threads: it forks readers
    store = engine.join()
    request.connect(store, rank.rank, context.workers, context.config.train, engine.clock.wait)
    stop_sampling = sample_usage(record, rank, attempt)  # after all ranks of the node have logged RankStarted
    _build(context, engine, data)
    steps = steps_of_member(context.config, data.counts, data.shapes, context.member)
    find = partial(find_checkpoints, record.folder, context.member, attempt_number)
    position = resume_from_newest(agree_on_checkpoints(find, rank.rank, store), context, engine, store, steps)
    if waits_for_start:
        log.write(StartWait())
        wait_for_start(attempt, rank.rank)
    measure_before(context, engine)
    engine.barrier()
    began_s = time.monotonic()
    log.write(RunStart(epoch=position.epoch))
    end = EndOfTraining(context, store, steps, engine.clock.wait)
    quality, position = train(context, engine, data, Checkpoints(context, store, request), position, end)
    log.write(RunStop(quality=quality, step=position.step))
    training_s = time.monotonic() - began_s
    write_predictions(context, engine, data, attempt.predictions)
    _record_memory(context, engine)
    stop_sampling()
    measure_inference(context, engine, data)
    engine.barrier()
    if rank.rank == 0:
        _record_completion(context, attempt_number, quality, position.step / steps)
    # A member without neighbours had none when it measured before training.
    has_neighbours = waits_for_start or context.config.launch.allocation == "one"
    measure_after(context, engine, store, max_wait_s_of(record, training_s) if has_neighbours else None)
    engine.leave()


def _set_up(context: RankContext, engine: Engine) -> None:
    """Sets up the engine and logs host, device, affinity and software."""
    device, versions = engine.set_up(), describe_software(context.config.train.engine)
    context.log.write(
        RankStarted(
            host=socket.gethostname(),
            pid=os.getpid(),
            rank=context.rank.rank,
            device=device.name,
            device_uuid=device.uuid,
            affinity=check_affinity(
                context.rank.cores,
                context.threads,
                device.threads,
                context.config.launch.interop_threads,
                device.interop_threads,
            ),
            environment=recorded_environment(),
            allocator=loaded_allocator(),
            software={**versions, "python_executable": sys.executable, **device.software},
        )
    )


def _build(context: RankContext, engine: Engine, data: Data) -> None:
    """Builds model and optimizer; rank 0 logs what the model costs and which options are on."""
    ready = engine.build(data)
    if context.rank.rank == 0:
        from trainmark.workloads.flops.count import (
            count_model,  # imports torch: FLOPs are counted the same for all engines
        )

        config = context.config
        context.log.write(ModelReady(**count_model(config.model, config.model_settings, data.sample_shape)))
        context.log.write(ready)


def wait_for_start(attempt: AttemptFolder, rank: int) -> None:
    """Returns at the common start time that the launcher wrote, or after its delay if clocks disagree."""
    write_text(attempt.ready(rank), "")
    start_at, delay_s = read_when_visible(lambda: _read_start(attempt), attempt.path, math.inf, POLL_START_S)
    time.sleep(min(delay_s, max(0.0, start_at - time.time())))


def _read_start(attempt: AttemptFolder) -> tuple[float, float]:
    start_at, delay_s = map(float, attempt.go.read_text().split())
    return start_at, delay_s


def _record_memory(context: RankContext, engine: Engine) -> None:
    """Logs the peak memory of this rank, on the host and on the device."""
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    context.log.write(Memory(resident_bytes=resident, device_bytes=engine.peak_device_bytes()))


def _record_completion(context: RankContext, attempt_number: int, quality: float | None, epochs: float) -> None:
    done = {
        "member": context.member,
        "attempt": attempt_number,
        "quality": quality,
        "epochs": epochs,
        "predictions": context.attempt.predictions.exists(),  # none with synthetic data
    }
    write_json(context.attempt.done, done)
