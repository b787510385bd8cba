"""One rank's part in training one member, from set-up to completion record, stage by stage."""

import time
from functools import partial

from trainmark.spec.events import RunStart, RunStop, StartWait
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.train.ceiling import measure_after, measure_before, patience_of
from trainmark.train.checkpoint import Checkpoints
from trainmark.train.end_request import EndRequest
from trainmark.train.evaluation import write_predictions
from trainmark.train.event_log import EventLog
from trainmark.train.loop import train
from trainmark.train.open_data import open_data
from trainmark.train.process import peak_memory, set_up_process
from trainmark.train.resume import agree_on_checkpoints, find_checkpoints, resume_from_newest
from trainmark.train.start_line import wait_for_go
from trainmark.train.torch.build import build_trainee
from trainmark.train.torch.process_group import barrier, join_group, leave_group
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
    stop_sampling = sample_usage(record, rank, attempt)  # now that all ranks of the node have said what they are
    trainee = build_trainee(record, rank, data, workers, attempt, log)
    find = partial(find_checkpoints, record.folder, record.job.member, attempt_number)
    position = resume_from_newest(agree_on_checkpoints(find, rank.rank, store), trainee, record.folder, log)
    if waits_for_start:
        log.write(StartWait())
        wait_for_go(attempt, rank.rank)
    measure_before(record, device, log)
    barrier()
    began_s = time.monotonic()
    log.write(RunStart(epoch=position.epoch))
    quality = train(trainee, Checkpoints(attempt, record.config.launch, log, request), log, position)
    log.write(RunStop(quality=quality))
    training_s = time.monotonic() - began_s
    write_predictions(trainee, attempt.predictions)
    log.write(peak_memory(device))
    stop_sampling()
    barrier()
    if rank.rank == 0:
        done = {
            "member": record.job.member,
            "attempt": attempt_number,
            "quality": quality,
            "predictions": attempt.predictions.exists(),  # synthetic data have none
        }
        write_json(attempt.done, done)
    # Members that run on their own did so when they measured before.
    has_neighbours = waits_for_start or record.config.launch.allocation == "one"
    patience_s = patience_of(record, training_s) if has_neighbours else None
    measure_after(record, rank.rank, attempt, device, log, store, patience_s)
    leave_group()
