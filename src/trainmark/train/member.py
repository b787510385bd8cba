"""One rank's part in training one member, from set-up to completion record, stage by stage."""

from functools import partial

import torch

from trainmark.machine.ceilings import measure_ceiling
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.train.build import build_trainee
from trainmark.train.checkpoint import Checkpoints, Position, agree_on_checkpoint, find_checkpoint, load_checkpoint
from trainmark.train.end_request import EndRequest, Store
from trainmark.train.evaluation import write_predictions
from trainmark.train.event_log import EventLog
from trainmark.train.loop import train
from trainmark.train.open_data import open_data
from trainmark.train.process import peak_memory, set_up_process
from trainmark.train.process_group import barrier, join_group, leave_group
from trainmark.train.start_line import wait_for_go
from trainmark.train.trainee import Trainee
from trainmark.train.usage_log import sample_usage


def train_member(
    record: JobRecord, rank: Rank, attempt_number: int, log: EventLog, request: EndRequest, *, waits_for_start: bool
) -> None:
    """The member is trained; rank 0 leaves predictions and the completion record."""
    attempt = record.folder.attempt(record.job.member, attempt_number)
    device = set_up_process(record, rank, log)
    data = open_data(record, rank, attempt, device, log)  # first: it forks readers, and no threads are at work yet
    workers, store = join_group(rank, record, attempt, device)
    request.agree_over(store, rank.rank, workers.size, record.config.train)
    stop_sampling = sample_usage(record, rank, attempt)  # now that all ranks of the node have told what they are
    trainee = build_trainee(record, rank, data, workers, attempt, log)
    position = _resume(trainee, record, attempt_number, log, store)
    if waits_for_start:
        wait_for_go(attempt, rank.rank)
    _measure_ceiling(record, device, log)
    barrier()
    log.write("run_start", epoch=position.epoch)
    quality = train(trainee, Checkpoints(attempt, record.config.launch, log, request), log, position)
    log.write("run_stop", quality=quality)
    write_predictions(trainee, attempt.predictions)
    log.write("memory", **peak_memory(device))
    stop_sampling()
    barrier()
    if rank.rank == 0:
        has_predictions = attempt.predictions.exists()  # made-up data have none
        done = {
            "member": record.job.member,
            "attempt": attempt_number,
            "quality": quality,
            "predictions": has_predictions,
        }
        write_json(attempt.done, done)
    leave_group()


def _resume(trainee: Trainee, record: JobRecord, attempt_number: int, log: EventLog, store: Store | None) -> Position:
    find = partial(find_checkpoint, record.folder, record.job.member, attempt_number)
    found = agree_on_checkpoint(find, trainee.rank, store)
    if found is None:
        return Position()
    position = load_checkpoint(found, trainee)
    where = str(found.path.relative_to(record.folder.path))
    log.write("resumed", checkpoint=where, epoch=position.epoch, step=position.step)
    return position


def _measure_ceiling(record: JobRecord, device: torch.device, log: EventLog) -> None:
    measure = record.config.measure
    if not measure.ceiling or not record.job.is_first_of_lane:
        return
    precision = record.config.train.precision
    assert precision is not None
    log.write("ceiling", **measure_ceiling(device, measure.ceiling_seconds, precision))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
